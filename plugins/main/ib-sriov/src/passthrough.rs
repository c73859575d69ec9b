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
