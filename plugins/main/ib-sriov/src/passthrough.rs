//! Functions that a pod passes to a virtual machine.

use identifiers::PciAddress;
use plugin_runtime::{Error, Node};
use sysfs::Function;
use vf::HostVf;

use crate::{conf::IbSriovConf, error::IbSriovError};

/// The driver of functions for virtual machines.
const VFIO: &str = "vfio-pci";

/// What is passed to a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passthrough {
    /// Nothing: the VF has a driver of the kernel.
    No,
    /// The VF.
    Vf,
    /// A whole PF.
    Pf,
}

/// Returns what the driver of the configured device means.
///
/// # Errors
/// If the device does not exist, `vfioPciMode` is set and it has another driver, or it is a PF with one.
pub(crate) fn of(node: &Node, conf: &IbSriovConf) -> Result<Passthrough, Error> {
    let device = conf.device;
    let is_vfio = require_vfio(node, conf)?;
    if is_vf(node, device)? {
        return Ok(if is_vfio { Passthrough::Vf } else { Passthrough::No });
    }
    if is_vfio { Ok(Passthrough::Pf) } else { Err(IbSriovError::IsPf(device).into()) }
}

fn require_vfio(node: &Node, conf: &IbSriovConf) -> Result<bool, Error> {
    let device = conf.device;
    let driver = node.sysfs.driver(&Function::Pci(device))?;
    let is_vfio = driver.as_deref() == Some(VFIO);
    if conf.vfio == Some(true) && !is_vfio && node.sysfs.has(&Function::Pci(device))? {
        let driver = driver.unwrap_or_else(|| "none".into());
        return Err(IbSriovError::NotVfio { device, driver }.into());
    }
    Ok(is_vfio)
}

fn is_vf(node: &Node, device: PciAddress) -> Result<bool, Error> {
    if !node.sysfs.has(&Function::Pci(device))? {
        HostVf::exists(node, device)?; // its error
    }
    Ok(node.sysfs.pf_of(device)?.is_some())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use state::StateDir;
    use sysfs::Sysfs;

    use super::*;

    #[test]
    fn only_a_device_with_the_driver_vfio_is_passed_through_and_a_pf_needs_it() {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(StateDir::at(root.path().join("state")), Vec::new(), None);
        node.sysfs = Sysfs::at(root.path());
        for (address, driver, is_vf) in [
            ("0000:af:00.0", Some("mlx5_core"), false),
            ("0000:af:00.1", Some("vfio-pci"), false),
            ("0000:af:00.2", Some("mlx5_core"), true),
            ("0000:af:00.3", Some("vfio-pci"), true),
            ("0000:af:00.4", None, true),
        ] {
            let device = root.path().join("bus/pci/devices").join(address);
            fs::create_dir_all(&device).unwrap();
            if let Some(driver) = driver {
                symlink(format!("../../drivers/{driver}"), device.join("driver")).unwrap();
            }
            if is_vf {
                symlink("../0000:af:00.0", device.join("physfn")).unwrap();
            }
        }
        let found = |last: u8, vfio| {
            let conf = IbSriovConf {
                device: format!("0000:af:00.{last}").parse().unwrap(),
                guid: None,
                link_state: None,
                vfio,
                needs_guid: false,
                isolation: None,
                routing: Default::default(),
                device_info: None,
            };
            of(&node, &conf).map_err(|error| error.to_string())
        };
        for vfio in [None, Some(true)] {
            assert_eq!(found(1, vfio), Ok(Passthrough::Pf));
            assert_eq!(found(3, vfio), Ok(Passthrough::Vf));
        }
        assert_eq!((found(2, None), found(4, None)), (Ok(Passthrough::No), Ok(Passthrough::No)));
        for (last, vfio, expected) in [
            (0, None, "requires vfioPciMode"),
            (0, Some(true), "it has mlx5_core"),
            (2, Some(true), "it has mlx5_core"),
            (4, Some(true), "it has none"),
            (7, None, "there is no PCI device"),
            (7, Some(true), "there is no PCI device"),
        ] {
            let error = found(last, vfio).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
