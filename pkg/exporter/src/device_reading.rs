//! What was read, as it was said; nothing is added up here.

use std::sync::Arc;

use netns::NetNsId;
use rdma::{
    Device, LinkLayer, PhysState, Port, PortState,
    resource::{CounterSet, ResourceCounts},
};
use serde::Serialize;

use crate::{DeviceInfo, device_resources::DeviceResources};

/// A pod of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct PodInfo {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: a pod that is made again under its name has another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl From<&podmap::PodRef> for PodInfo {
    fn from(pod: &podmap::PodRef) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// Names of counters, shared by all readings that have the same.
pub(crate) type CounterNames = Arc<[String]>;

/// Counters under the names that the driver or the kernel gives them.
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
    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.names.iter().map(String::as_str).zip(self.values.iter().copied())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// One RDMA device.
#[derive(Debug, Clone)]
pub struct DeviceReading {
    /// The namespace it was found in.
    pub place: NetNsId,
    /// Whether that is the node's own.
    pub on_node: bool,
    /// The pod, if it is in one's namespace.
    pub pod: Option<Arc<PodInfo>>,
    /// What the kernel calls it.
    pub device: Device,
    /// What does not change.
    pub facts: Arc<DeviceInfo>,
    /// Its ports.
    pub ports: Vec<PortReading>,
    /// Counters of the device as a whole.
    pub counters: RawCounters,
    /// The traffic class of its packets, if one is set for all of them.
    pub traffic_class: Option<u32>,
    /// How many objects of each kind there are.
    pub resources: Option<ResourceCounts>,
    /// The objects that processes made.
    pub objects: Option<DeviceResources>,
}

/// One port.
#[derive(Debug, Clone)]
pub struct PortReading {
    /// Number, state, link.
    pub port: Port,
    /// Hardware counters, in the driver's order.
    pub hw_counters: RawCounters,
    /// Standard counters.
    pub counters: RawCounters,
    /// Statistics of its link.
    pub link_statistics: RawCounters,
    /// The link's speed in Mb/s.
    pub speed: Option<u32>,
    /// Its GID table, of the last time it was read.
    pub gids: Option<Arc<GidTable>>,
}

/// A GID table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidTable {
    /// How many entries there is room for.
    pub capacity: usize,
    /// Those in use.
    pub entries: Vec<sysfs::GidEntry>,
}

impl DeviceReading {
    /// The sets of counters that are bound to its queue pairs, if they were read, and its objects.
    pub(crate) fn counter_sets(&self) -> Option<(&[CounterSet], &DeviceResources)> {
        let objects = self.objects.as_ref()?;
        Some((objects.counter_sets.as_deref()?, objects))
    }

    /// Whose namespace it was found in: `host` or `pod`.
    pub fn netns(&self) -> &'static str {
        if self.on_node { "host" } else { "pod" }
    }
}

impl PortReading {
    /// Its logical state, as `rdma link show` prints it, in small letters; one without a name is a number.
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

    /// Its physical state, in the same way.
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

    /// `Ethernet` or `InfiniBand`.
    pub fn link_layer(&self) -> &'static str {
        match self.port.link_layer {
            LinkLayer::Ethernet => "Ethernet",
            LinkLayer::InfiniBand => "InfiniBand",
        }
    }

    /// A port of which nothing more is known.
    pub(crate) fn of(port: Port) -> Self {
        Self {
            port,
            hw_counters: RawCounters::default(),
            counters: RawCounters::default(),
            link_statistics: RawCounters::default(),
            speed: None,
            gids: None,
        }
    }
}
