//! Network functions and their attributes.

use identifiers::{LinkName, PciAddress, VfIndex};

use crate::{
    Error, Function, Sysfs,
    root::{is_there, link, names, parsed, text},
};

/// The PCI IDs of a function, as in `lspci -n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciId {
    /// The vendor ID, such as `0x15b3` for Mellanox.
    pub vendor: u16,
    /// The device ID, such as `0x101d` for ConnectX-6 Dx.
    pub device: u16,
}

impl Sysfs {
    /// Returns the PCI functions of the class network controller, including VFs, sorted by address.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn network_functions(&self) -> Result<Vec<PciAddress>, Error> {
        let path = self.root().join("bus/pci/devices");
        let mut functions = Vec::new();
        for name in names(&path)? {
            let class = text(&path.join(&name).join("class"))?.unwrap_or_default();
            if class.starts_with("0x02") {
                functions.push(parsed(&path, name, "a PCI address")?);
            }
        }
        functions.sort_unstable();
        Ok(functions)
    }

    /// Returns the PCI IDs of a function; `None` if sysfs does not show them.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn pci_id(&self, function: PciAddress) -> Result<Option<PciId>, Error> {
        let number = |name: &str| -> Result<Option<u16>, Error> {
            let path = self.dir(&function.into()).join(name);
            let Some(text) = text(&path)? else { return Ok(None) };
            let number = u16::from_str_radix(text.trim_start_matches("0x"), 16);
            number.map(Some).map_err(|_| Error::Malformed { path, text, expected: "four hexadecimal digits" })
        };
        let (vendor, device) = (number("vendor")?, number("device")?);
        Ok(vendor.zip(device).map(|(vendor, device)| PciId { vendor, device }))
    }

    /// Returns whether the kernel binds new VFs of a PF to a driver; `None` if the PF does not support VFs.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    #[doc(alias = "sriov_drivers_autoprobe")]
    pub fn autoprobe(&self, pf: PciAddress) -> Result<Option<bool>, Error> {
        let path = self.dir(&pf.into()).join("sriov_drivers_autoprobe");
        match text(&path)?.as_deref() {
            None => Ok(None),
            Some("0") => Ok(Some(false)),
            Some("1") => Ok(Some(true)),
            Some(other) => Err(Error::Malformed { path, text: other.to_owned(), expected: "0 or 1" }),
        }
    }

    /// Returns the number of the IOMMU group of a function. User space opens it as `/dev/vfio/<number>`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn iommu_group(&self, function: PciAddress) -> Result<Option<String>, Error> {
        link(&self.dir(&function.into()).join("iommu_group"))
    }

    /// Returns the controller of a link, such as a bond or bridge.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn master(&self, name: &LinkName) -> Result<Option<String>, Error> {
        link(&self.root().join("class/net").join(name.as_str()).join("master"))
    }

    /// Whether a link is a bond.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_bond(&self, name: &LinkName) -> Result<bool, Error> {
        is_there(&self.root().join("class/net").join(name.as_str()).join("bonding"))
    }

    /// Returns the upper links of a link (macvlan, VLAN, bond), sorted.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn uppers(&self, name: &LinkName) -> Result<Vec<String>, Error> {
        self.adjacent(name, "upper_")
    }

    /// Returns the lower links of a link (the parent of a VLAN, the members of a bond), sorted.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn lowers(&self, name: &LinkName) -> Result<Vec<String>, Error> {
        self.adjacent(name, "lower_")
    }

    fn adjacent(&self, name: &LinkName, side: &str) -> Result<Vec<String>, Error> {
        let entries = names(&self.root().join("class/net").join(name.as_str()))?;
        Ok(entries.iter().filter_map(|entry| entry.strip_prefix(side)).map(str::to_owned).collect())
    }

    /// Returns the representors of the VFs of a PF, with the index of the VF: `pf0vf1` is the representor of VF 1.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn representors(&self, pf: PciAddress) -> Result<Vec<(VfIndex, LinkName)>, Error> {
        let links = self.links(&Function::Pci(pf))?.into_iter();
        Ok(links.filter_map(|link| Some((self.represented(&link)?, link))).collect())
    }

    /// Returns the VF index of a representor. Its port name is `pf0vf1`, or `c1pf0vf1` for a VF of another host.
    fn represented(&self, link: &LinkName) -> Option<VfIndex> {
        let path = self.root().join("class/net").join(link.as_str()).join("phys_port_name");
        let name = text(&path).ok()??;
        let (pf, vf) = name.split_once("vf")?;
        let is_local = pf.strip_prefix("pf").is_some_and(|number| number.parse::<u32>().is_ok());
        is_local.then(|| vf.parse().ok().map(VfIndex))?
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::test_fixture::SysfsFixture;

    const PF: &str = "0000:af:00.0";

    fn pci(text: &str) -> PciAddress {
        text.parse().unwrap()
    }

    #[test]
    fn network_functions_are_selected_by_class() {
        let tree = SysfsFixture::mlx5();
        let functions = || tree.sysfs.network_functions().unwrap();
        assert!(functions().is_empty());
        for (name, class) in
            [(PF, "0x020700\n"), ("0000:af:00.2", "0x020000\n"), ("0000:af:00.3", "0x010802\n")]
        {
            fs::write(tree.sysfs.dir(&pci(name).into()).join("class"), class).unwrap();
        }
        assert_eq!(functions(), [pci(PF), pci("0000:af:00.2")]);
    }

    #[test]
    fn pci_ids_are_hexadecimal() {
        let tree = SysfsFixture::mlx5();
        assert_eq!(tree.sysfs.pci_id(pci(PF)).unwrap(), None);
        let dir = tree.sysfs.dir(&pci(PF).into());
        fs::write(dir.join("vendor"), "0x15b3\n").unwrap();
        fs::write(dir.join("device"), "0x101d\n").unwrap();
        assert_eq!(tree.sysfs.pci_id(pci(PF)).unwrap(), Some(PciId { vendor: 0x15b3, device: 0x101d }));
        fs::write(dir.join("device"), "ConnectX\n").unwrap();
        assert!(matches!(tree.sysfs.pci_id(pci(PF)), Err(Error::Malformed { .. })));
    }

    #[test]
    fn autoprobe_is_0_or_1() {
        let tree = SysfsFixture::mlx5();
        assert_eq!(tree.sysfs.autoprobe(pci(PF)).unwrap(), None);
        let file = tree.sysfs.dir(&pci(PF).into()).join("sriov_drivers_autoprobe");
        for (text, expected) in [("0\n", false), ("1\n", true)] {
            fs::write(&file, text).unwrap();
            assert_eq!(tree.sysfs.autoprobe(pci(PF)).unwrap(), Some(expected));
        }
        fs::write(&file, "yes\n").unwrap();
        assert!(tree.sysfs.autoprobe(pci(PF)).is_err());
    }

    #[test]
    fn upper_and_lower_links_and_the_controller_are_found() {
        let tree = SysfsFixture::mlx5();
        let link: LinkName = "ens6f0v0".parse().unwrap();
        assert_eq!(tree.sysfs.master(&link).unwrap(), None);
        let dir = tree.sysfs.root().join("class/net/ens6f0v0");
        symlink("../bond0", dir.join("master")).unwrap();
        symlink("../bond0", dir.join("upper_bond0")).unwrap();
        symlink("../mac0", dir.join("upper_mac0")).unwrap();
        assert_eq!(tree.sysfs.master(&link).unwrap().as_deref(), Some("bond0"));
        symlink("../eth9", dir.join("lower_eth9")).unwrap();
        assert_eq!(tree.sysfs.uppers(&link).unwrap(), ["bond0", "mac0"]);
        assert_eq!(tree.sysfs.lowers(&link).unwrap(), ["eth9"]);
    }

    #[test]
    fn representors_have_the_index_of_their_vf() {
        let tree = SysfsFixture::mlx5();
        tree.link("eth7", PF, Some("pf0vf1"));
        tree.link("eth8", PF, Some("c1pf0vf3"));
        tree.link("eth9", PF, Some("pf0sf88"));
        let found = tree.sysfs.representors(pci(PF)).unwrap();
        assert_eq!(
            found,
            [(VfIndex(1), "eth7".parse().unwrap())],
            "the others belong to another host, or not to a VF"
        );
    }
}
