//! PFs, VFs and their links.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use identifiers::{LinkName, PciAddress, VfIndex};

use crate::{
    AuxiliaryName, Error, Function, Sysfs,
    root::{is_there, link, names, parsed, text, value},
};

const ADDRESS: &str = "a PCI address";
const NUMBER: &str = "a number";

impl Sysfs {
    /// Returns whether the function exists.
    ///
    /// # Errors
    /// [`Error::Io`] if that cannot be determined: the settings of a function must not be dropped as if it were gone.
    pub fn has(&self, function: &Function) -> Result<bool, Error> {
        is_there(&self.dir(function))
    }

    /// Returns the driver of the function; `None` if it is not bound.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn driver(&self, function: &Function) -> Result<Option<String>, Error> {
        link(&self.dir(function).join("driver"))
    }

    /// Returns the PF of a VF; `None` if the function is not a VF.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    #[doc(alias = "physfn")]
    pub fn pf_of(&self, vf: PciAddress) -> Result<Option<PciAddress>, Error> {
        let path = self.dir(&vf.into()).join("physfn");
        link(&path)?.map(|target| parsed(&path, target, ADDRESS)).transpose()
    }

    /// Returns the PF of a scalable function: the PCI function that its auxiliary device is below. `None` if it is not below one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn pf_of_scalable(&self, name: &AuxiliaryName) -> Result<Option<PciAddress>, Error> {
        let path = self.dir(&Function::Auxiliary(name.clone()));
        match fs::read_link(&path) {
            Ok(target) => {
                Ok(target.parent().and_then(Path::file_name).and_then(|name| name.to_str()?.parse().ok()))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// Returns whether this machine has a scalable function.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn has_scalable(&self) -> Result<bool, Error> {
        Ok(names(&self.root().join("bus/auxiliary/devices"))?.iter().any(|name| name.contains(".sf.")))
    }

    /// Returns the index of a VF on its PF, starting at 0.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the function is not a VF, or its PF does not list it.
    pub fn vf_index(&self, vf: PciAddress) -> Result<VfIndex, Error> {
        let missing = |what: &str, path| Error::NotFound { what: format!("VF {vf}: {what}"), path };
        let physfn = self.dir(&vf.into()).join("physfn");
        let pf = self.pf_of(vf)?.ok_or_else(|| missing("its PF", physfn))?;
        for index in (0..self.num_vfs(pf)?).map(VfIndex) {
            if self.vf(pf, index)? == Some(vf) {
                return Ok(index);
            }
        }
        Err(missing("its index on the PF", self.dir(&pf.into()).join("virtfn*")))
    }

    /// Returns the VF with this index; `None` if it does not exist.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    #[doc(alias = "virtfn")]
    pub fn vf(&self, pf: PciAddress, index: VfIndex) -> Result<Option<PciAddress>, Error> {
        let path = self.dir(&pf.into()).join(format!("virtfn{index}"));
        link(&path)?.map(|target| parsed(&path, target, ADDRESS)).transpose()
    }

    /// Returns all VFs of a PF, sorted by index.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn vfs(&self, pf: PciAddress) -> Result<Vec<PciAddress>, Error> {
        (0..self.num_vfs(pf)?).filter_map(|index| self.vf(pf, VfIndex(index)).transpose()).collect()
    }

    /// Returns any VF of this machine; `None` if there is none.
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

    /// Returns the current number of VFs of the PF; 0 if it does not support VFs.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    #[doc(alias = "sriov_numvfs")]
    pub fn num_vfs(&self, pf: PciAddress) -> Result<u32, Error> {
        Ok(value(&self.dir(&pf.into()).join("sriov_numvfs"), NUMBER)?.unwrap_or(0))
    }

    /// Returns the maximum number of VFs of the PF.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    #[doc(alias = "sriov_totalvfs")]
    pub fn total_vfs(&self, pf: PciAddress) -> Result<u32, Error> {
        Ok(value(&self.dir(&pf.into()).join("sriov_totalvfs"), NUMBER)?.unwrap_or(0))
    }

    /// Returns the NUMA node of the function; `None` if the platform does not report it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn numa_node(&self, function: &Function) -> Result<Option<u32>, Error> {
        let node: Option<i64> = value(&self.dir(function).join("numa_node"), NUMBER)?;
        Ok(node.and_then(|node| u32::try_from(node).ok())) // -1: unknown
    }

    /// Returns the links of the function in the namespace that this sysfs shows, sorted.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn links(&self, function: &Function) -> Result<Vec<LinkName>, Error> {
        let dir = self.dir(function);
        let links = links_in(&dir.join("net"))?;
        if !links.is_empty() {
            return Ok(links);
        }
        // In a virtual machine, the link is below a device of the virtio bus.
        let virtio = names(&dir)?.into_iter().filter(|name| name.starts_with("virtio"));
        let links =
            virtio.map(|name| links_in(&dir.join(name).join("net"))).collect::<Result<Vec<_>, _>>()?;
        Ok(links.concat())
    }

    /// Returns the lowest interface index of the function's links in the namespace that this sysfs shows. Unlike
    /// [`Sysfs::links`], this does not fail if a pod has set a name with arbitrary bytes.
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
            // A link that is being moved or renamed cannot be read.
            let index = value(&entry.map_err(failed)?.path().join("ifindex"), NUMBER).ok().flatten();
            first = first.into_iter().chain(index).min();
        }
        Ok(first)
    }

    /// Returns the link of a PF.
    ///
    /// In switchdev mode, the same directory contains the representors of its VFs, which are ignored.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the PF has no link in this namespace.
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

    /// Returns the function of a link; `None` for a link without one, such as a macvlan or a bond.
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

    /// Returns whether a link has a device on a bus other than PCI and the auxiliary bus, such as virtio.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_on_other_bus(&self, name: &LinkName) -> Result<bool, Error> {
        let device = self.root().join("class/net").join(name.as_str()).join("device");
        Ok(link(&device.join("subsystem"))?.is_some_and(|bus| bus != "pci" && bus != "auxiliary"))
    }

    /// Returns whether the link is a representor. The port name of a PF is `p0` or missing, that of a representor is
    /// `pf0vf1`, `pf0sf4` or `c1pf0vf1`. Reading it fails with `EOPNOTSUPP` if the driver does not support it.
    fn is_representor(&self, link: &LinkName) -> bool {
        let path = self.root().join("class/net").join(link.as_str()).join("phys_port_name");
        let name = text(&path).ok().flatten().unwrap_or_default();
        let port = match name.strip_prefix('c') {
            Some(rest) => rest.trim_start_matches(|c: char| c.is_ascii_digit()),
            None => &name,
        };
        port.starts_with("pf")
    }

    /// Returns the directory of a function. A [`Function`] is validated, so the path cannot leave sysfs.
    pub fn dir(&self, function: &Function) -> PathBuf {
        self.root().join(function.path())
    }
}

/// Returns the names of the links in a directory `net`.
fn links_in(path: &Path) -> Result<Vec<LinkName>, Error> {
    names(path)?.into_iter().map(|name| parsed(path, name, "a link name")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fixture::SysfsFixture;

    fn pci(text: &str) -> PciAddress {
        text.parse().unwrap()
    }

    #[test]
    fn a_vf_has_a_pf_and_an_index() {
        let tree = SysfsFixture::mlx5();
        assert_eq!(tree.sysfs.pf_of(pci("0000:af:00.3")).unwrap(), Some(pci("0000:af:00.0")));
        assert_eq!(tree.sysfs.vf_index(pci("0000:af:00.2")).unwrap(), VfIndex(0));
        assert_eq!(tree.sysfs.vf_index(pci("0000:af:00.3")).unwrap(), VfIndex(1));
        assert_eq!(tree.sysfs.pf_of(pci("0000:af:00.0")).unwrap(), None);
        assert!(tree.sysfs.vf_index(pci("0000:af:00.0")).unwrap_err().is_not_found());
    }

    #[test]
    fn a_scalable_function_is_below_its_pf() {
        let tree = SysfsFixture::mlx5();
        let pf_of = |name: &str| tree.sysfs.pf_of_scalable(&name.parse().unwrap()).unwrap();
        assert_eq!(pf_of("mlx5_core.sf.2"), Some(pci("0000:af:00.0")));
        assert_eq!(pf_of("mlx5_core.sf.3"), None);
        assert!(tree.sysfs.has_scalable().unwrap());
        fs::remove_file(tree.sysfs.root().join("bus/auxiliary/devices/mlx5_core.sf.2")).unwrap();
        assert!(!tree.sysfs.has_scalable().unwrap());
    }

    #[test]
    fn a_pf_lists_its_vfs() {
        let tree = SysfsFixture::mlx5();
        let pf = pci("0000:af:00.0");
        assert_eq!(tree.sysfs.vfs(pf).unwrap(), [pci("0000:af:00.2"), pci("0000:af:00.3")]);
        assert_eq!((tree.sysfs.num_vfs(pf).unwrap(), tree.sysfs.total_vfs(pf).unwrap()), (2, 8));
        assert_eq!(tree.sysfs.num_vfs(pci("0000:af:00.2")).unwrap(), 0);
        // A VF is removed: the others are still listed, and have their indexes.
        fs::remove_file(tree.sysfs.dir(&pf.into()).join("virtfn0")).unwrap();
        assert_eq!(tree.sysfs.vfs(pf).unwrap(), [pci("0000:af:00.3")]);
        assert_eq!(tree.sysfs.vf_index(pci("0000:af:00.3")).unwrap(), VfIndex(1));
    }

    #[test]
    fn any_vf_is_none_on_a_machine_without_vfs() {
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
        for (link, index) in [("a", "9\n"), ("b", ""), ("z", "5\n")] {
            tree.file(&format!("bus/pci/devices/0000:af:00.2/net/{link}/ifindex"), index);
        }
        assert_eq!(tree.sysfs.link_index(&pci("0000:af:00.2").into()).unwrap(), Some(5), "the lowest");
        assert!(tree.sysfs.has(&pci("0000:af:00.3").into()).unwrap());
        assert!(!tree.sysfs.has(&pci("0000:af:00.4").into()).unwrap());
        // A loop of symbolic links is an error.
        let symlink_loop = tree.sysfs.root().join("bus/pci/devices/0000:af:00.5");
        std::os::unix::fs::symlink("0000:af:00.5", symlink_loop).unwrap();
        assert!(matches!(tree.sysfs.has(&pci("0000:af:00.5").into()), Err(Error::Io { .. })));
    }

    #[test]
    fn representors_are_not_the_link_of_the_pf() {
        let tree = SysfsFixture::mlx5();
        let pf = pci("0000:af:00.0");
        assert_eq!(tree.sysfs.pf_link(pf).unwrap().as_str(), "ens6f0np0");
        tree.link("eth7", "0000:af:00.0", Some("pf0vf1"));
        tree.link("eth8", "0000:af:00.0", Some("c1pf0sf88"));
        tree.link("a0", "0000:af:00.0", Some("pf0"));
        assert_eq!(tree.sysfs.pf_link(pf).unwrap().as_str(), "ens6f0np0");
        assert!(tree.sysfs.pf_link(pci("0000:af:00.3")).unwrap_err().is_not_found());
    }

    #[test]
    fn a_link_below_a_virtio_device_is_found() {
        let tree = SysfsFixture::mlx5();
        let card = pci("0000:00:04.0");
        fs::create_dir_all(tree.sysfs.dir(&card.into()).join("virtio1/net/eth0")).unwrap();
        let links = tree.sysfs.links(&card.into()).unwrap();
        assert_eq!(links, ["eth0".parse().unwrap()]);
        fs::create_dir_all(tree.sysfs.root().join("class/net/eth0/device")).unwrap();
        let subsystem = tree.sysfs.root().join("class/net/eth0/device/subsystem");
        std::os::unix::fs::symlink("../../../../bus/virtio", subsystem).unwrap();
        assert_eq!(tree.sysfs.function_of(&links[0]).unwrap(), None, "the device is not one of PCI");
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
        assert_eq!(tree.sysfs.numa_node(&pci("0000:af:00.2").into()).unwrap(), None, "-1 is unknown");
        assert_eq!(tree.sysfs.driver(&pci("0000:af:00.4").into()).unwrap(), None);
    }
}
