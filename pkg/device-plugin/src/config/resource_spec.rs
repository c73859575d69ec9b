//! A resource in a configuration.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{NodeDevice, ResourceName, Selector};

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
    /// Whether `NCCL_CONF_FILE` of containers is the file with the settings for their devices.
    pub sets_nccl_conf: bool,
    /// Whether devices are healthy although their port is down, as for traffic between the VFs of a PF.
    pub ignores_port: bool,
    /// Values for `PCIDEVICE_…_INFO`, by device ID, or `*` for all devices.
    pub additional_info: BTreeMap<String, Value>,
    /// The path of its keys in the file, such as `resourceList[0]`.
    pub path: String,
}

impl ResourceSpec {
    /// Returns the place of the first selector that matches a device.
    pub(crate) fn matching(&self, device: &NodeDevice) -> Option<usize> {
        self.selectors.iter().position(|selector| selector.mismatch(device).is_none())
    }

    /// Whether a selector has the name of a device, of its link or of its own driver.
    pub(crate) fn names(&self, device: &NodeDevice) -> bool {
        let is_own = |driver: &String| device.driver.as_ref() == Some(driver);
        self.selectors.iter().any(|selector| {
            !selector.interfaces.is_empty()
                || !selector.rdma_devices.is_empty()
                || selector.drivers.iter().any(is_own)
        })
    }

    /// Whether a device must have RDMA, and containers with it get its nodes, according to its selector.
    pub(crate) fn requires_rdma(&self, device: &NodeDevice) -> bool {
        self.says(device, |selector| selector.is_rdma)
    }

    /// Whether containers with a device get `vhost-net` and `net/tun`, according to its selector.
    pub(crate) fn requires_vhost_net(&self, device: &NodeDevice) -> bool {
        self.says(device, |selector| selector.needs_vhost_net)
    }

    /// What the selector of a device says: the first that matches it, or else the one that has. If it is unknown, as of a device that
    /// lost its driver before this process started, all must say so.
    fn says(&self, device: &NodeDevice, what: impl Fn(&Selector) -> bool) -> bool {
        let selector = self.matching(device).or(device.selector).and_then(|place| self.selectors.get(place));
        selector.map_or_else(|| self.selectors.iter().all(&what), &what)
    }
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
