//! Listing, finding and changing RDMA devices.

use netlink_packet_rdma::{NldevAttribute, NldevCommand, NodeType};
use nix::errno::Errno;
use sysfs::{Function, Sysfs};

use crate::{
    Error, Guid, Handle,
    handle::{attributes, message},
};

/// The number of dumps after which the last one counts: another device is moved during each of them, or one of those that
/// are wanted is not here.
const STABLE_TRIES: usize = 8;

/// An RDMA device that is visible in the handle's namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The kernel's index. It does not change by moves and renames, until the driver is unbound.
    pub index: u32,
    /// The name, such as `mlx5_3`: unique on the node, but it may differ after a reboot.
    pub name: String,
    /// The node GUID.
    pub node_guid: Guid,
    /// The card's GUID (system image).
    pub sys_image_guid: Guid,
    /// The firmware version, if the driver reports it.
    pub fw_version: Option<String>,
    /// The node type, such as a channel adapter.
    pub node_type: Option<NodeType>,
    /// The protocol: `roce`, `ib`, `iw`, `opa`; `None` with some kernels.
    pub protocol: Option<String>,
    /// The number of ports. Ports count from 1.
    pub ports: u32,
    /// Whether moderation of completions is adaptive (DIM); `None` with some kernels.
    pub adaptive_moderation: Option<bool>,
}

impl Handle {
    /// Returns all devices that are visible in the handle's namespace, by index.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_GET` as a dump. `_nldev_get_dumpit` sends one device per datagram and continues at its position in the
    /// list: when another device enters or leaves the namespace meanwhile, one is listed twice or not at all, and the kernel
    /// does not report that the dump was interrupted. So the list is read until two reads are the same. Both may lack the
    /// same device if others are moved during both; a caller that knows names uses [`Handle::devices_named`].
    #[doc(alias = "rdma dev show")]
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        let mut last = self.devices_of_one_dump()?;
        for _ in 1..STABLE_TRIES {
            let next = self.devices_of_one_dump()?;
            if is_same_list(&last, &next) {
                return Ok(next);
            }
            last = next;
        }
        Ok(last)
    }

    /// Returns the devices of one dump, each once. Those that were moved meanwhile may have hidden another.
    fn devices_of_one_dump(&self) -> Result<Vec<Device>, Error> {
        let request = message(NldevCommand::Get, Vec::new());
        let mut found = self.dump("list", &"RDMA devices", request, |found: &mut Vec<Device>, reply| {
            found.extend(Device::read(attributes(reply)));
        })?;
        found.sort_by_key(|device| device.index);
        found.dedup_by_key(|device| device.index);
        Ok(found)
    }

    /// Returns the devices with these names that are visible in the handle's namespace, by index: those of the first dump
    /// that lists all of them, or of the last of several.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn devices_named(&self, names: &[impl AsRef<str>]) -> Result<Vec<Device>, Error> {
        let mut tries = 0;
        loop {
            let mut found = self.devices_of_one_dump()?;
            found.retain(|device| names.iter().any(|name| name.as_ref() == device.name));
            tries += 1;
            if found.len() == names.len() || tries == STABLE_TRIES {
                return Ok(found);
            }
        }
    }

    /// Returns the device of that name, if it is visible in the handle's namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn find_device(&self, name: &str) -> Result<Option<Device>, Error> {
        Ok(self.devices_named(&[name])?.pop())
    }

    /// Returns the device of that index, if it is visible in the handle's namespace, by one request instead of a dump.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_GET` with `RDMA_NLDEV_ATTR_DEV_INDEX`. `EINVAL` means that the device is not in this namespace.
    pub fn find_device_by_index(&self, index: u32) -> Result<Option<Device>, Error> {
        let request = message(NldevCommand::Get, vec![NldevAttribute::DevIndex(index)]);
        match self.get_at_once("find", &format_args!("RDMA device {index}"), request) {
            Ok(reply) => Ok(Device::read(attributes(reply))),
            Err(error) if error.errno() == Some(Errno::EINVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames a device that is visible in the handle's namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`]: exists if another device of the node has that name, not found if none has the old one.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_SET` with `RDMA_NLDEV_ATTR_DEV_INDEX` and `RDMA_NLDEV_ATTR_DEV_NAME`.
    #[doc(alias = "rdma dev set name")]
    pub fn rename_device(&self, device: &Device, to: &str) -> Result<(), Error> {
        let object = format!("RDMA device {}", device.name);
        let attributes = vec![NldevAttribute::DevIndex(device.index), NldevAttribute::DevName(to.to_owned())];
        Ok(self.execute("rename", &object, message(NldevCommand::Set, attributes))?)
    }

    /// Sets adaptive moderation of completions for a device that is visible in the handle's namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_SET` with `RDMA_NLDEV_ATTR_DEV_INDEX` and `RDMA_NLDEV_ATTR_DEV_DIM`, since Linux 5.5.
    #[doc(alias = "rdma dev set adaptive-moderation")]
    pub fn set_adaptive_moderation(&self, device: &Device, on: bool) -> Result<(), Error> {
        let object = format!("adaptive moderation of RDMA device {}", device.name);
        let attributes = vec![NldevAttribute::DevIndex(device.index), NldevAttribute::DevDim(on.into())];
        Ok(self.execute("set", &object, message(NldevCommand::Set, attributes))?)
    }

    /// Returns the devices of a PCI function or auxiliary device that are visible in the handle's namespace.
    ///
    /// Their names are read from `sysfs`, which must show the same namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`], [`Error::Sysfs`].
    pub fn devices_of(&self, sysfs: &Sysfs, function: &Function) -> Result<Vec<Device>, Error> {
        let names = sysfs.rdma_devices(function)?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        self.devices_named(&names)
    }

    /// Returns the only device of a PCI function or auxiliary device.
    ///
    /// # Errors
    /// [`Error::NoDeviceOf`] or [`Error::Elsewhere`] if there is none, [`Error::SeveralDevices`] if there are more.
    pub fn device_of(&self, sysfs: &Sysfs, function: &Function) -> Result<Device, Error> {
        let mut found = self.devices_of(sysfs, function)?;
        match (found.pop(), found.is_empty()) {
            (Some(device), true) => Ok(device),
            (Some(last), false) => {
                let devices = found.into_iter().chain([last]).map(|device| device.name).collect();
                Err(Error::SeveralDevices { function: function.clone(), devices })
            }
            (None, _) => Err(missing(sysfs, function)?),
        }
    }
}

/// Whether two lists have the same devices under the same names.
fn is_same_list(left: &[Device], right: &[Device]) -> bool {
    let identities =
        |list: &[Device]| -> Vec<_> { list.iter().map(|it| (it.index, it.name.clone())).collect() };
    identities(left) == identities(right)
}

/// Returns the error of a function without an RDMA device in this namespace.
fn missing(sysfs: &Sysfs, function: &Function) -> Result<Error, Error> {
    let function = function.clone();
    Ok(match sysfs.uverbs(&function)?.into_iter().next() {
        Some(uverbs) => Error::Elsewhere { function, uverbs },
        None => Error::NoDeviceOf { driver: sysfs.driver(&function)?, function },
    })
}

impl Device {
    /// Reads the device in a reply; `None` if it has no index or no name.
    pub fn read(attributes: Vec<NldevAttribute>) -> Option<Self> {
        let (mut index, mut name) = (None, None);
        let mut device = Self {
            index: 0,
            name: String::new(),
            node_guid: Guid(0),
            sys_image_guid: Guid(0),
            fw_version: None,
            node_type: None,
            protocol: None,
            ports: 0,
            adaptive_moderation: None,
        };
        for attribute in attributes {
            match attribute {
                NldevAttribute::DevIndex(v) => index = Some(v),
                NldevAttribute::DevName(v) => name = Some(v),
                NldevAttribute::PortIndex(v) => device.ports = v,
                NldevAttribute::NodeGuid(v) => device.node_guid = Guid(v),
                NldevAttribute::SysImageGuid(v) => device.sys_image_guid = Guid(v),
                NldevAttribute::FwVersion(v) => device.fw_version = Some(v),
                NldevAttribute::DevNodeType(v) => device.node_type = Some(v),
                NldevAttribute::DevProtocol(v) => device.protocol = Some(v),
                NldevAttribute::DevDim(v) => device.adaptive_moderation = Some(v != 0),
                _ => {}
            }
        }
        Some(Self { index: index?, name: name?, ..device })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_device_in_a_pod_is_not_called_missing() {
        let tree = tempfile::tempdir().unwrap();
        let dir = tree.path().join("bus/pci/devices/0000:af:00.2");
        let sysfs = Sysfs::at(tree.path());
        let function: Function = "0000:af:00.2".parse().unwrap();
        fs::create_dir_all(dir.join("infiniband")).unwrap();
        let none = missing(&sysfs, &function).unwrap().to_string();
        assert!(none.starts_with("0000:af:00.2 has no RDMA device: its driver is none;"), "{none}");
        fs::create_dir_all(dir.join("infiniband_verbs/uverbs2")).unwrap();
        assert!(
            matches!(missing(&sysfs, &function), Ok(Error::Elsewhere { uverbs, .. }) if uverbs == "uverbs2")
        );
    }

    #[test]
    fn a_reply_without_index_or_name_is_not_a_device() {
        let name = NldevAttribute::DevName("mlx5_0".into());
        assert_eq!(Device::read(vec![name.clone()]), None);
        assert_eq!(Device::read(vec![NldevAttribute::DevIndex(4)]), None);
        let device = Device::read(vec![
            NldevAttribute::DevIndex(4),
            name,
            NldevAttribute::PortIndex(2),
            NldevAttribute::NodeGuid(5),
            NldevAttribute::SysImageGuid(6),
            NldevAttribute::DevDim(0),
        ]);
        let device = device.unwrap();
        assert_eq!((device.index, device.name.as_str(), device.ports), (4, "mlx5_0", 2));
        assert_eq!((device.node_guid, device.sys_image_guid), (Guid(5), Guid(6)));
        assert_eq!(device.adaptive_moderation, Some(false), "it is known to be off");
    }

    #[test]
    fn a_list_is_the_same_if_no_device_has_another_name_or_index() {
        let device = |index, name: &str| {
            Device::read(vec![NldevAttribute::DevIndex(index), NldevAttribute::DevName(name.into())]).unwrap()
        };
        let list = [device(1, "mlx5_0"), device(2, "mlx5_1")];
        assert!(is_same_list(&list, &list.clone()));
        for other in [
            &list[..1],
            &[device(1, "mlx5_0"), device(2, "net1")],
            &[device(1, "mlx5_0"), device(3, "mlx5_1")],
        ] {
            assert!(!is_same_list(&list, other) && !is_same_list(other, &list), "{other:?}");
        }
    }
}
