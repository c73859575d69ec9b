//! The devices of a node.

use std::collections::{BTreeMap, BTreeSet};

use identifiers::LinkName;
use sysfs::{Error, Function, Sysfs};

use crate::{NodeDevice, PciPath, discovery::DeviceReader};

/// The devices of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeDevices {
    /// Network functions, scalable functions and software RDMA devices, in this order, each sorted.
    pub devices: Vec<NodeDevice>,
    /// Where the GPUs are.
    pub gpus: Vec<PciPath>,
    /// Why the files of a device cannot be read, by its ID: such as of a card whose firmware does not answer.
    pub unreadable: BTreeMap<String, String>,
}

impl NodeDevices {
    /// Reads the devices. A device that disappears meanwhile is not contained.
    ///
    /// # Errors
    /// [`Error`] if they cannot be listed.
    pub fn read(sysfs: &Sysfs, default_routes: &BTreeSet<LinkName>) -> Result<Self, Error> {
        let reader = DeviceReader { sysfs, default_routes };
        let (mut devices, mut unreadable) = (Vec::new(), BTreeMap::new());
        let mut add = |id: String, device: Result<Option<NodeDevice>, Error>| match if_present(device) {
            Ok(device) => devices.extend(device),
            Err(error) => drop(unreadable.insert(id, error.to_string())),
        };
        for pci in sysfs.network_functions()? {
            add(pci.to_string(), reader.network_function(pci).map(Some));
        }
        for name in sysfs.scalable_functions()? {
            add(name.to_string(), reader.scalable_function(&name));
        }
        for rdma in sysfs.virtual_rdma_devices()? {
            add(rdma.clone(), reader.software_device(rdma).map(Some));
        }
        let mut gpus = Vec::new();
        for gpu in sysfs.gpus()? {
            gpus.extend(sysfs.directory(&gpu.into())?.and_then(|path| PciPath::of(&path)));
        }
        Ok(Self { devices, gpus, unreadable })
    }

    /// Reads one device by its ID; `None` if it does not exist.
    ///
    /// # Errors
    /// [`Error`] if its files cannot be read.
    pub fn find(sysfs: &Sysfs, id: &str) -> Result<Option<NodeDevice>, Error> {
        let reader = DeviceReader { sysfs, default_routes: &BTreeSet::new() };
        let function: Option<Function> = id.parse().ok();
        if sysfs.virtual_rdma_devices()?.iter().any(|device| device == id) {
            return if_present(reader.software_device(id.to_owned()).map(Some));
        }
        match function {
            Some(function) if !sysfs.has(&function)? => Ok(None),
            Some(Function::Pci(pci)) => if_present(reader.network_function(pci).map(Some)),
            Some(Function::Auxiliary(name)) => if_present(reader.scalable_function(&name)),
            None => Ok(None),
        }
    }
}

fn if_present(device: Result<Option<NodeDevice>, Error>) -> Result<Option<NodeDevice>, Error> {
    match device {
        Err(error) if error.is_not_found() || is_removed(&error) => Ok(None),
        other => other,
    }
}

/// Whether a device was removed while its file was open (`ENODEV`), or its link while an attribute was read (`EINVAL`).
fn is_removed(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if matches!(source.raw_os_error(), Some(ENODEV | EINVAL)))
}

/// `ENODEV` and `EINVAL` of `errno.h`.
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
