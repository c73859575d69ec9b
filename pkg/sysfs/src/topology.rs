//! Where devices are: auxiliary devices of a function, indexes of the board, directories.

use std::{fs, path::PathBuf};

use identifiers::{LinkName, PciAddress};

use crate::{
    AuxiliaryName, Error, Function, Sysfs,
    root::{names, parsed, text, value},
};

const NUMBER: &str = "a number";

/// Base classes of PCI devices.
const DISPLAY: &str = "0x03";
const ACCELERATOR: &str = "0x12";

/// ASPEED and Matrox: the display controllers of servers' management controllers.
const MANAGEMENT_VENDORS: [&str; 2] = ["0x1a03", "0x102b"];

impl Sysfs {
    /// Returns the auxiliary devices that are scalable functions, such as `mlx5_core.sf.2`, sorted. Others are parts of a
    /// function, such as `mlx5_core.rdma.0`.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn scalable_functions(&self) -> Result<Vec<AuxiliaryName>, Error> {
        let path = self.root().join("bus/auxiliary/devices");
        let names = names(&path)?.into_iter().filter(|name| auxiliary_type(name) == Some("sf"));
        names.map(|name| parsed(&path, name, "the name of an auxiliary device")).collect()
    }

    /// Returns the number that a scalable function has on its card; `None` if the driver does not report it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    #[doc(alias = "sfnum")]
    pub fn scalable_function_number(&self, function: &AuxiliaryName) -> Result<Option<u32>, Error> {
        value(&self.dir(&Function::Auxiliary(function.clone())).join("sfnum"), NUMBER)
    }

    /// Returns the GPUs and other accelerators, sorted: display controllers, except those of management controllers, and
    /// processing accelerators.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn gpus(&self) -> Result<Vec<PciAddress>, Error> {
        let path = self.root().join("bus/pci/devices");
        let mut gpus = Vec::new();
        for name in names(&path)? {
            let class = text(&path.join(&name).join("class"))?.unwrap_or_default();
            let vendor = text(&path.join(&name).join("vendor"))?.unwrap_or_default();
            let is_gpu = class.starts_with(DISPLAY) && !MANAGEMENT_VENDORS.contains(&vendor.as_str());
            if is_gpu || class.starts_with(ACCELERATOR) {
                gpus.push(parsed(&path, name, "a PCI address")?);
            }
        }
        Ok(gpus)
    }

    /// Returns the real directory of a function, whose path contains the bridges above it; `None` if it is gone.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn directory(&self, function: &Function) -> Result<Option<PathBuf>, Error> {
        let path = self.dir(function);
        match fs::canonicalize(&path) {
            Ok(directory) => Ok(Some(directory)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// Returns the index that the firmware has given to a device of the board; `None` if it has none.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn acpi_index(&self, function: &Function) -> Result<Option<u32>, Error> {
        value(&self.dir(function).join("acpi_index"), NUMBER)
    }

    /// Returns the hardware type of a link (`ARPHRD_…` in `linux/if_arp.h`): 1 is Ethernet, 32 InfiniBand.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`].
    pub fn hardware_type(&self, link: &LinkName) -> Result<Option<u32>, Error> {
        value(&self.root().join("class/net").join(link.as_str()).join("type"), NUMBER)
    }

    /// Returns the operational state of a link (RFC 2863): `up`, `down`, `unknown` and others.
    ///
    /// # Errors
    /// [`Error::Io`].
    #[doc(alias = "operstate")]
    pub fn operational_state(&self, link: &LinkName) -> Result<Option<String>, Error> {
        text(&self.root().join("class/net").join(link.as_str()).join("operstate"))
    }

    /// Returns the state of a port of an RDMA device that is visible here, as `enum ib_port_state`: 1 is down, 4 active. `None`
    /// if it has no such port.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Malformed`]; [`Error::NotFound`] if `device` is not a valid name.
    pub fn rdma_port_state(&self, device: &str, port: u32) -> Result<Option<u32>, Error> {
        let path = self.rdma_dir(device)?.join(format!("ports/{port}/state"));
        // "4: ACTIVE"
        let number = text(&path)?.map(|text| text.split(':').next().unwrap_or_default().to_owned());
        number.map(|number| parsed(&path, number, NUMBER)).transpose()
    }

    /// Returns the default partition key of a port of an RDMA device that is visible here, such as `0xffff`.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::NotFound`] if `device` is not a valid name.
    pub fn default_pkey(&self, device: &str, port: u32) -> Result<Option<String>, Error> {
        text(&self.rdma_dir(device)?.join(format!("ports/{port}/pkeys/0")))
    }
}

/// Returns the type in the name of an auxiliary device: `sf` in `mlx5_core.sf.2`.
pub(crate) fn auxiliary_type(name: &str) -> Option<&str> {
    name.rsplit('.').nth(1)
}

impl AuxiliaryName {
    /// Returns the type of the device: `sf` of `mlx5_core.sf.2`.
    pub fn device_type(&self) -> Option<&str> {
        auxiliary_type(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fixture::SysfsFixture;

    #[test]
    fn scalable_functions_have_a_type_and_a_number() {
        let tree = SysfsFixture::mlx5();
        fs::create_dir_all(tree.sysfs.root().join("bus/auxiliary/devices/mlx5_core.rdma.0")).unwrap();
        let [function] = &tree.sysfs.scalable_functions().unwrap()[..] else {
            panic!("one scalable function")
        };
        assert_eq!((function.as_str(), function.device_type()), ("mlx5_core.sf.2", Some("sf")));
        assert_eq!(tree.sysfs.scalable_function_number(function).unwrap(), None);
        fs::write(tree.sysfs.dir(&Function::Auxiliary(function.clone())).join("sfnum"), "88\n").unwrap();
        assert_eq!(tree.sysfs.scalable_function_number(function).unwrap(), Some(88));
    }

    #[test]
    fn gpus_are_display_controllers_of_no_management_controller_and_accelerators() {
        let tree = SysfsFixture::mlx5();
        for (function, class, vendor) in [
            ("0000:03:00.0", "0x030000", "0x1a03"),
            ("0000:04:00.0", "0x030000", "0x102b"),
            ("0000:17:00.0", "0x030200", "0x10de"),
            ("0000:18:00.0", "0x020700", "0x15b3"),
            ("0000:19:00.0", "0x120000", "0x19e5"),
            ("0000:1a:00.0", "0x120000", "0x1a03"),
        ] {
            let dir = format!("bus/pci/devices/{function}");
            tree.file(&format!("{dir}/class"), &format!("{class}\n"));
            tree.file(&format!("{dir}/vendor"), &format!("{vendor}\n"));
        }
        let gpus: Vec<_> = tree.sysfs.gpus().unwrap().into_iter().map(String::from).collect();
        assert_eq!(gpus, ["0000:17:00.0", "0000:19:00.0", "0000:1a:00.0"]);
    }

    #[test]
    fn a_directory_contains_the_bridges() {
        let tree = SysfsFixture::mlx5();
        let directory = tree.sysfs.directory(&"0000:af:00.2".parse().unwrap()).unwrap().unwrap();
        assert!(directory.ends_with("pci0000:ae/0000:ae:00.0/0000:af:00.2"), "{directory:?}");
        assert_eq!(tree.sysfs.directory(&"0000:af:00.7".parse().unwrap()).unwrap(), None);
    }

    #[test]
    fn indexes_types_and_partitions_are_read() {
        let tree = SysfsFixture::mlx5();
        let (pf, link) = ("0000:af:00.0".parse().unwrap(), "ens6f0np0".parse().unwrap());
        assert_eq!(
            (tree.sysfs.acpi_index(&pf).unwrap(), tree.sysfs.hardware_type(&link).unwrap()),
            (None, None)
        );
        tree.file("class/net/ens6f0np0/type", "1\n");
        tree.file("bus/pci/devices/0000:af:00.0/acpi_index", "3\n");
        tree.file("class/infiniband/mlx5_0/ports/1/pkeys/0", "0xffff\n");
        tree.file("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
        tree.file("class/net/ens6f0np0/operstate", "lowerlayerdown\n");
        assert_eq!(tree.sysfs.rdma_port_state("mlx5_0", 1).unwrap(), Some(4));
        assert_eq!(tree.sysfs.rdma_port_state("mlx5_0", 2).unwrap(), None);
        assert_eq!(tree.sysfs.operational_state(&link).unwrap().as_deref(), Some("lowerlayerdown"));
        assert_eq!(
            (tree.sysfs.acpi_index(&pf).unwrap(), tree.sysfs.hardware_type(&link).unwrap()),
            (Some(3), Some(1))
        );
        assert_eq!(tree.sysfs.default_pkey("mlx5_0", 1).unwrap().as_deref(), Some("0xffff"));
        assert_eq!(tree.sysfs.default_pkey("mlx5_0", 2).unwrap(), None);
    }
}
