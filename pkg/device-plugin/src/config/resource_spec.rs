//! A resource in a configuration.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{ResourceName, Selector};

/// A resource of the kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceSpec {
    /// Its name.
    pub name: ResourceName,
    /// How its devices are given out.
    pub mode: ResourceMode,
    /// Its selectors: a device must match one of them.
    pub selectors: Vec<Selector>,
    /// Whether the kubelet is told the NUMA node of each device.
    pub has_topology: bool,
    /// Whether containers also get `vhost-net` and `net/tun`.
    pub needs_vhost_net: bool,
    /// Whether `NCCL_CONF_FILE` of containers is the file with the settings for their devices.
    pub sets_nccl_conf: bool,
    /// Values for `PCIDEVICE_…_INFO`, by device ID, or `*` for all devices.
    pub additional_info: BTreeMap<String, Value>,
    /// The path of its keys in the file, such as `resourceList[0]`.
    pub path: String,
}

/// How the devices of a resource are given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceMode {
    /// A device belongs to one container.
    Exclusive(ExclusiveType),
    /// Containers share the devices, up to a number of containers.
    Shared {
        /// The number of containers (`rdmaHcaMax`).
        slots: u32,
    },
}

/// The type of exclusive devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExclusiveType {
    /// Network functions: VFs, or PFs without VFs.
    Network,
    /// Scalable functions.
    Auxiliary,
}

impl ExclusiveType {
    /// The value of the key `deviceType`.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Network => "netDevice",
            Self::Auxiliary => "auxNetDevice",
        }
    }
}
