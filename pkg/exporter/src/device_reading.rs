//! The unprocessed data of a device: values as the kernel reports them.

use std::sync::Arc;

use netns::NetNsId;
use rdma::{
    Device, LinkLayer, PhysState, Port, PortState,
    resource::{CounterSet, ResourceCounts},
};
use serde::Serialize;
use sysfs::GidTable;

use crate::{CmCounters, DeviceInfo, PhysicalState, ProcessInfo, device_resources::DeviceResources};

/// A pod: namespace, name and UID.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct PodInfo {
    /// The namespace, such as `kube-system`.
    pub namespace: String,
    /// The name, such as `trainer-0`.
    pub name: String,
    /// The UID. A pod that is recreated with the same name has another UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl From<&podmap::PodRef> for PodInfo {
    fn from(pod: &podmap::PodRef) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// Names of counters, shared by readings with the same names.
pub(crate) type CounterNames = Arc<[String]>;

/// Counters with the names that the driver or the kernel uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawCounters {
    pub(crate) names: CounterNames,
    pub(crate) values: Vec<u64>,
}

impl<S: Into<String>> FromIterator<(S, u64)> for RawCounters {
    fn from_iter<I: IntoIterator<Item = (S, u64)>>(pairs: I) -> Self {
        let (names, values): (Vec<_>, _) =
            pairs.into_iter().map(|(name, value)| (name.into(), value)).unzip();
        Self { names: names.into(), values }
    }
}

impl RawCounters {
    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.names.iter().map(String::as_str).zip(self.values.iter().copied())
    }

    /// Whether there are no counters.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// A reading of one RDMA device.
#[derive(Debug, Clone)]
pub struct DeviceReading {
    /// The network namespace of the device.
    pub place: NetNsId,
    /// Whether that is the host namespace.
    pub on_node: bool,
    /// The pod, if the device is in a pod's network namespace.
    pub pod: Option<Arc<PodInfo>>,
    /// A process with the device in its network namespace, if that does not belong to a pod.
    pub process: Option<Arc<ProcessInfo>>,
    /// Index, name and GUIDs, from netlink (`RDMA_NLDEV_CMD_GET`).
    pub device: Device,
    /// Properties that do not change.
    pub facts: Arc<DeviceInfo>,
    /// The ports of the device.
    pub ports: Vec<PortReading>,
    /// Counters of the device as a whole.
    pub counters: RawCounters,
    /// The traffic class of all packets of the device, if one is set.
    pub traffic_class: Option<u32>,
    /// The number of objects of each type.
    pub resources: Option<ResourceCounts>,
    /// The objects of processes.
    pub objects: Option<Arc<DeviceResources>>,
    /// Counter sets that are bound to queue pairs; `None` if they were not read.
    pub counter_sets: Option<Vec<CounterSet>>,
}

/// A reading of one port.
#[derive(Debug, Clone)]
pub struct PortReading {
    /// Number, state and link, from netlink (`RDMA_NLDEV_CMD_PORT_GET`).
    pub port: Port,
    /// Hardware counters, in the driver's order.
    pub hw_counters: RawCounters,
    /// Standard counters (PMA).
    pub counters: RawCounters,
    /// Driver statistics of its link (`ethtool -S`).
    pub link_statistics: RawCounters,
    /// The speed of the link in Mb/s.
    pub speed: Option<u32>,
    /// The last reading of its GID table.
    pub gids: Option<Arc<GidTable>>,
    /// The physical state of its link and slot; `None` for a VF.
    pub physical: Option<Arc<PhysicalState>>,
    /// Messages of its connection manager; `None` if it has none or they are not read.
    pub cm: Option<CmCounters>,
}

impl DeviceReading {
    /// Returns the counter sets that are bound to its queue pairs, and its objects; `None` if they were not read.
    pub(crate) fn counter_sets(&self) -> Option<(&[CounterSet], &DeviceResources)> {
        Some((self.counter_sets.as_deref()?, self.objects.as_deref()?))
    }

    /// Returns the value of the label `netns`: `host` or `pod`.
    pub fn netns(&self) -> &'static str {
        if self.on_node { "host" } else { "pod" }
    }
}

impl PortReading {
    /// Returns the logical state as `rdma link show` prints it, in lower case; an unknown state is a number.
    pub fn state(&self) -> String {
        match self.port.state {
            PortState::Down => "down".into(),
            PortState::Init => "init".into(),
            PortState::Armed => "armed".into(),
            PortState::Active => "active".into(),
            PortState::ActiveDefer => "active_defer".into(),
            other => u8::from(other).to_string(),
        }
    }

    /// Returns the physical state as `rdma link show` prints it, in lower case; an unknown state is a number.
    pub fn physical_state(&self) -> String {
        match self.port.phys_state {
            PhysState::Sleep => "sleep".into(),
            PhysState::Polling => "polling".into(),
            PhysState::Disabled => "disabled".into(),
            PhysState::Training => "link_training".into(),
            PhysState::LinkUp => "link_up".into(),
            PhysState::ErrorRecovery => "link_error_recovery".into(),
            PhysState::Test => "phy_test".into(),
            other => u8::from(other).to_string(),
        }
    }

    /// Returns the link layer: `Ethernet` or `InfiniBand`.
    pub fn link_layer(&self) -> &'static str {
        match self.port.link_layer {
            LinkLayer::Ethernet => "Ethernet",
            LinkLayer::InfiniBand => "InfiniBand",
        }
    }

    /// Creates a reading without counters.
    pub(crate) fn of(port: Port) -> Self {
        Self {
            port,
            hw_counters: RawCounters::default(),
            counters: RawCounters::default(),
            link_statistics: RawCounters::default(),
            speed: None,
            gids: None,
            physical: None,
            cm: None,
        }
    }
}
