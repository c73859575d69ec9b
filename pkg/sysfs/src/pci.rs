//! PFs, VFs, and the links that belong to them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use identifiers::{LinkName, PciAddress, VfIndex};

use crate::{
    Error, Function, Sysfs,
    root::{is_there, link, names, parsed, text, value},
};

const ADDRESS: &str = "a PCI address";
const NUMBER: &str = "a number";

impl Sysfs {
    /// Whether the function is there.
    ///
    /// # Errors
    /// [`Error::Io`] if that cannot be seen: a function whose settings are to be restored must not count as gone then.
    pub fn has(&self, function: &Function) -> Result<bool, Error> {
        is_there(&self.dir(function))
    }

    /// The driver the function is bound to.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn driver(&self, function: &Function) -> Result<Option<String>, Error> {
        link(&self.dir(function).join("driver"))
    }

    /// The PF a VF belongs to; `None` if the function is no VF.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    #[doc(alias = "physfn")]
    pub fn pf_of(&self, vf: PciAddress) -> Result<Option<PciAddress>, Error> {
        let path = self.dir(&vf.into()).join("physfn");
        link(&path)?.map(|target| parsed(&path, target, ADDRESS)).transpose()
    }

    /// The number by which the PF's driver knows a VF, from 0.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the function is no VF, or its PF does not list it.
    pub fn vf_index(&self, vf: PciAddress) -> Result<VfIndex, Error> {
        let missing = |what: &str, path| Error::NotFound { what: format!("VF {vf}: {what}"), path };
        let physfn = self.dir(&vf.into()).join("physfn");
        let pf = self.pf_of(vf)?.ok_or_else(|| missing("its PF", physfn))?;
        for index in (0..self.num_vfs(pf)?).map(VfIndex) {
            if self.vf(pf, index)? == Some(vf) {
                return Ok(index);
            }
        }
        Err(missing("its number on the PF", self.dir(&pf.into()).join("virtfn*")))
    }

    /// The VF of that number.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    #[doc(alias = "virtfn")]
    pub fn vf(&self, pf: PciAddress, index: VfIndex) -> Result<Option<PciAddress>, Error> {
        let path = self.dir(&pf.into()).join(format!("virtfn{index}"));
        link(&path)?.map(|target| parsed(&path, target, ADDRESS)).transpose()
    }

    /// All VFs of a PF, in the order of their numbers.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn vfs(&self, pf: PciAddress) -> Result<Vec<PciAddress>, Error> {
        (0..self.num_vfs(pf)?).filter_map(|index| self.vf(pf, VfIndex(index)).transpose()).collect()
    }

    /// A VF of this machine; `None` if it has none.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn any_vf(&self) -> Result<Option<PciAddress>, Error> {
        let path = self.root().join("bus/pci/devices");
        for name in names(&path)? {
            let address = parsed(&path, name, ADDRESS)?;
            if self.pf_of(address)?.is_some() {
                return Ok(Some(address));
            }
        }
        Ok(None)
    }

    /// How many VFs the PF has now; 0 if it cannot have any.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    #[doc(alias = "sriov_numvfs")]
    pub fn num_vfs(&self, pf: PciAddress) -> Result<u32, Error> {
        Ok(value(&self.dir(&pf.into()).join("sriov_numvfs"), NUMBER)?.unwrap_or(0))
    }

    /// How many VFs the PF can have.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    #[doc(alias = "sriov_totalvfs")]
    pub fn total_vfs(&self, pf: PciAddress) -> Result<u32, Error> {
        Ok(value(&self.dir(&pf.into()).join("sriov_totalvfs"), NUMBER)?.unwrap_or(0))
    }

    /// The NUMA node the function is attached to, if the platform says.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn numa_node(&self, function: &Function) -> Result<Option<u32>, Error> {
        let node: Option<i64> = value(&self.dir(function).join("numa_node"), NUMBER)?;
        Ok(node.and_then(|node| u32::try_from(node).ok())) // -1: not known
    }

    /// The function's links in the namespace this sysfs shows, sorted.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn links(&self, function: &Function) -> Result<Vec<LinkName>, Error> {
        let dir = self.dir(function);
        let links = links_in(&dir.join("net"))?;
        if !links.is_empty() {
            return Ok(links);
        }
        // Between a virtual machine's card and its link there is a device of the virtio bus.
        let virtio = names(&dir)?.into_iter().filter(|name| name.starts_with("virtio"));
        let links =
            virtio.map(|name| links_in(&dir.join(name).join("net"))).collect::<Result<Vec<_>, _>>()?;
        Ok(links.concat())
    }

    /// The index of the function's first link in the namespace this sysfs shows. Its name may be one of any bytes, which
    /// a pod has given it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn link_index(&self, function: &Function) -> Result<Option<u32>, Error> {
        let path = self.dir(function).join("net");
        let failed = |source| Error::Io { path: path.clone(), source };
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        let mut first = None;
        for entry in entries {
            // One that is just leaving, or gets another name, cannot be read.
            let index = value(&entry.map_err(failed)?.path().join("ifindex"), NUMBER).ok().flatten();
            first = first.into_iter().chain(index).min();
        }
        Ok(first)
    }

    /// The link of a PF itself.
    ///
    /// In switchdev mode the representors of its VFs are in the same directory; they are left out.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it has no link here.
    pub fn pf_link(&self, pf: PciAddress) -> Result<LinkName, Error> {
        let mut links = self.links(&pf.into())?;
        if links.len() > 1 {
            links.retain(|link| !self.is_representor(link));
        }
        links.into_iter().next().ok_or_else(|| Error::NotFound {
            what: format!("link of PF {pf}"),
            path: self.dir(&pf.into()).join("net"),
        })
    }

    /// The function below a link, if there is one: a macvlan or a bond has none.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn function_of(&self, name: &LinkName) -> Result<Option<Function>, Error> {
        let device = self.root().join("class/net").join(name.as_str()).join("device");
        match link(&device.join("subsystem"))?.as_deref() {
            Some("pci" | "auxiliary") => {}
            _ => return Ok(None), // virtio, USB, or nothing
        }
        link(&device)?.map(|target| parsed(&device, target, "a PCI or auxiliary device")).transpose()
    }

    /// Drivers name a PF's own port `p0` or nothing, and a representor `pf0vf1`, `pf0sf4` or `c1pf0vf1`.
    /// The kernel answers `EOPNOTSUPP` for a driver that names none.
    fn is_representor(&self, link: &LinkName) -> bool {
        let path = self.root().join("class/net").join(link.as_str()).join("phys_port_name");
        let name = text(&path).ok().flatten().unwrap_or_default();
        let port = match name.strip_prefix('c') {
            Some(rest) => rest.trim_start_matches(|c: char| c.is_ascii_digit()),
            None => &name,
        };
        port.starts_with("pf")
    }

    /// The directory of a function. Its path holds nothing that was not checked.
    pub fn dir(&self, function: &Function) -> PathBuf {
        self.root().join(function.path())
    }
}

/// The names of the links in a directory `net`.
fn links_in(path: &Path) -> Result<Vec<LinkName>, Error> {
    names(path)?.into_iter().map(|name| parsed(path, name, "links")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fixture::SysfsFixture;

    fn pci(text: &str) -> PciAddress {
        text.parse().unwrap()
    }

    #[test]
    fn a_vf_knows_its_pf_and_its_number() {
        let tree = SysfsFixture::mlx5();
        assert_eq!(tree.sysfs.pf_of(pci("0000:af:00.3")).unwrap(), Some(pci("0000:af:00.0")));
        assert_eq!(tree.sysfs.vf_index(pci("0000:af:00.2")).unwrap(), VfIndex(0));
        assert_eq!(tree.sysfs.vf_index(pci("0000:af:00.3")).unwrap(), VfIndex(1));
        assert_eq!(tree.sysfs.pf_of(pci("0000:af:00.0")).unwrap(), None);
        assert!(tree.sysfs.vf_index(pci("0000:af:00.0")).unwrap_err().is_not_found());
    }

    #[test]
    fn a_pf_knows_its_vfs() {
        let tree = SysfsFixture::mlx5();
        let pf = pci("0000:af:00.0");
        assert_eq!(tree.sysfs.vfs(pf).unwrap(), [pci("0000:af:00.2"), pci("0000:af:00.3")]);
        assert_eq!((tree.sysfs.num_vfs(pf).unwrap(), tree.sysfs.total_vfs(pf).unwrap()), (2, 8));
        assert_eq!(tree.sysfs.num_vfs(pci("0000:af:00.2")).unwrap(), 0);
    }

    #[test]
    fn a_machine_has_vfs_or_none() {
        assert_eq!(SysfsFixture::mlx5().sysfs.any_vf().unwrap(), Some(pci("0000:af:00.2")));
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(Sysfs::at(empty.path()).any_vf().unwrap(), None);
    }

    #[test]
    fn a_vf_in_a_pod_has_no_link_here() {
        let tree = SysfsFixture::mlx5();
        assert_eq!(tree.sysfs.links(&pci("0000:af:00.2").into()).unwrap().len(), 1);
        assert!(tree.sysfs.links(&pci("0000:af:00.3").into()).unwrap().is_empty());
        assert_eq!(tree.sysfs.link_index(&pci("0000:af:00.2").into()).unwrap(), Some(7));
        assert_eq!(tree.sysfs.link_index(&pci("0000:af:00.3").into()).unwrap(), None);
        assert!(tree.sysfs.has(&pci("0000:af:00.3").into()).unwrap());
        assert!(!tree.sysfs.has(&pci("0000:af:00.4").into()).unwrap());
        // A circle of links cannot be followed, whatever is there.
        let circle = tree.sysfs.root().join("bus/pci/devices/0000:af:00.5");
        std::os::unix::fs::symlink("0000:af:00.5", circle).unwrap();
        assert!(matches!(tree.sysfs.has(&pci("0000:af:00.5").into()), Err(Error::Io { .. })));
    }

    #[test]
    fn representors_are_not_taken_for_the_pf() {
        let tree = SysfsFixture::mlx5();
        let pf = pci("0000:af:00.0");
        assert_eq!(tree.sysfs.pf_link(pf).unwrap().as_str(), "ens6f0np0");
        tree.link("eth7", "0000:af:00.0", Some("pf0vf1"));
        tree.link("eth8", "0000:af:00.0", Some("c1pf0sf88"));
        assert_eq!(tree.sysfs.pf_link(pf).unwrap().as_str(), "ens6f0np0");
        assert!(tree.sysfs.pf_link(pci("0000:af:00.3")).unwrap_err().is_not_found());
    }

    #[test]
    fn the_link_of_a_virtual_machines_card_is_below_its_virtio_device() {
        let tree = SysfsFixture::mlx5();
        let card = pci("0000:00:04.0");
        fs::create_dir_all(tree.sysfs.dir(&card.into()).join("virtio1/net/eth0")).unwrap();
        let links = tree.sysfs.links(&card.into()).unwrap();
        assert_eq!(links, ["eth0".parse().unwrap()]);
    }

    #[test]
    fn a_link_leads_to_its_function() {
        let tree = SysfsFixture::mlx5();
        let function = |name: &str| tree.sysfs.function_of(&name.parse().unwrap()).unwrap();
        assert_eq!(function("ens6f0v0"), Some(pci("0000:af:00.2").into()));
        assert_eq!(function("en6f0s88"), Some("mlx5_core.sf.2".parse().unwrap()));
        assert_eq!(function("lo"), None);
    }

    #[test]
    fn driver_and_numa_node_are_read() {
        let tree = SysfsFixture::mlx5();
        let pf = pci("0000:af:00.0").into();
        assert_eq!(tree.sysfs.driver(&pf).unwrap().as_deref(), Some("mlx5_core"));
        assert_eq!(tree.sysfs.numa_node(&pf).unwrap(), Some(1));
        assert_eq!(tree.sysfs.numa_node(&pci("0000:af:00.2").into()).unwrap(), None, "-1 is not known");
        assert_eq!(tree.sysfs.driver(&pci("0000:af:00.4").into()).unwrap(), None);
    }
}
