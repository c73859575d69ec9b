//! The devices of a node.

use std::collections::BTreeSet;

use identifiers::LinkName;
use sysfs::{Error, Sysfs};

use crate::{NodeDevice, discovery::DeviceReader};

/// The devices of a node: network functions, scalable functions and software RDMA devices, in this order, each sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeDevices(pub Vec<NodeDevice>);

impl NodeDevices {
    /// Reads the devices. A device that disappears meanwhile is not contained.
    ///
    /// # Errors
    /// [`Error`] if they cannot be listed, or a file of one is malformed.
    pub fn read(sysfs: &Sysfs, default_routes: &BTreeSet<LinkName>) -> Result<Self, Error> {
        let reader = DeviceReader { sysfs, default_routes };
        let mut devices = Vec::new();
        for pci in sysfs.network_functions()? {
            devices.extend(if_present(reader.network_function(pci).map(Some))?);
        }
        for name in sysfs.scalable_functions()? {
            devices.extend(if_present(reader.scalable_function(&name))?);
        }
        for rdma in sysfs.virtual_rdma_devices()? {
            devices.extend(if_present(reader.software_device(rdma).map(Some))?);
        }
        Ok(Self(devices))
    }
}

fn if_present(device: Result<Option<NodeDevice>, Error>) -> Result<Option<NodeDevice>, Error> {
    match device {
        Err(error) if error.is_not_found() => Ok(None),
        other => other,
    }
}
