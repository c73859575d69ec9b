//! Functions that a process drives, by VFIO or UIO.

use crate::{
    Error, Function, Sysfs,
    root::{link, names, text},
};

/// The nodes below `/dev` by which a process drives a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserSpaceNodes {
    /// The group of VFIO: `vfio/18`, or `vfio/noiommu-18` without an IOMMU.
    pub group: Option<String>,
    /// The device of VFIO, of Linux 6.6 or newer: `vfio/devices/vfio3`.
    pub device: Option<String>,
    /// The device of UIO: `uio0`.
    pub uio: Option<String>,
}

impl UserSpaceNodes {
    /// Returns all of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        [&self.group, &self.device, &self.uio].into_iter().flatten().map(String::as_str)
    }
}

impl Sysfs {
    /// Returns the nodes of a function whose driver passes it to a process or a virtual machine, so that it has no link; `None` if
    /// it has no such driver.
    ///
    /// The variants of `vfio-pci` have names of their own. They and those of UIO create a device of their class below the function, VFIO since
    /// Linux 6.1 (`__vfio_register_dev` in drivers/vfio/vfio_main.c); before, the name of the driver tells.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn user_space_nodes(&self, function: &Function) -> Result<Option<UserSpaceNodes>, Error> {
        let Some(driver) = self.driver(function)? else { return Ok(None) };
        let directory = self.dir(function);
        let first = |class: &str| Ok::<_, Error>(names(&directory.join(class))?.into_iter().next());
        let (vfio, uio) = (first("vfio-dev")?, first("uio")?);
        let is_vfio = vfio.is_some() || driver.contains("vfio");
        if !is_vfio && uio.is_none() && !driver.contains("uio") && driver != "pci-stub" {
            return Ok(None);
        }
        let group = if is_vfio { link(&directory.join("iommu_group"))? } else { None };
        let name = text(&directory.join("iommu_group/name"))?;
        // `vfio_noiommu_group_alloc` and `vfio_create_group` in drivers/vfio/group.c.
        let prefix = if name.as_deref() == Some("vfio-noiommu") { "noiommu-" } else { "" };
        Ok(Some(UserSpaceNodes {
            group: group.map(|group| format!("vfio/{prefix}{group}")),
            device: vfio.map(|device| format!("vfio/devices/{device}")),
            uio,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fixture::SysfsFixture;

    #[test]
    fn the_nodes_of_a_function_that_a_process_drives() {
        let group =
            |group: &str| Some(UserSpaceNodes { group: Some(group.into()), ..UserSpaceNodes::default() });
        let uio = UserSpaceNodes { uio: Some("uio5".into()), ..UserSpaceNodes::default() };
        let both = UserSpaceNodes { device: Some("vfio/devices/vfio3".into()), ..group("vfio/18").unwrap() };
        for (driver, entry, group_name, expected) in [
            ("mlx5_core", "net/p0", None, None),
            ("vfio-pci", "net", None, group("vfio/18")),
            ("vfio-pci", "net", Some("vfio-noiommu"), group("vfio/noiommu-18")),
            ("pds_vfio_pci", "vfio-dev/vfio3", None, Some(both.clone())),
            ("another", "vfio-dev/vfio3", None, Some(both)),
            ("igb_uio", "uio/uio5", None, Some(uio.clone())),
            ("another", "uio/uio5", None, Some(uio)),
            ("uio_pci_generic", "net", None, Some(UserSpaceNodes::default())),
            ("pci-stub", "net", None, Some(UserSpaceNodes::default())),
        ] {
            let tree = SysfsFixture::mlx5();
            let at = "bus/pci/devices/0000:b1:00.0";
            tree.dir(&format!("{at}/{entry}"));
            tree.dir("kernel/iommu_groups/18");
            tree.dir(&format!("bus/pci/drivers/{driver}"));
            tree.symlink(&format!("../../drivers/{driver}"), &format!("{at}/driver"));
            tree.symlink("../../../../kernel/iommu_groups/18", &format!("{at}/iommu_group"));
            if let Some(name) = group_name {
                tree.file("kernel/iommu_groups/18/name", &format!("{name}\n"));
            }
            let nodes = tree.sysfs.user_space_nodes(&"0000:b1:00.0".parse().unwrap()).unwrap();
            assert_eq!(nodes, expected, "{driver} {entry}");
        }
    }
}
