//! What was read, as it was said; nothing is added up here.

use std::sync::Arc;

use netns::NetNsId;
use rdma::{Device, Port, resource::ResourceCounts};
use serde::Serialize;

use crate::{Facts, objects::Objects};

/// A pod of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: a pod that is made again under its name has another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl From<&podmap::Pod> for Pod {
    fn from(pod: &podmap::Pod) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// Names of counters, shared by all readings that have the same.
pub(crate) type Names = Arc<[String]>;

/// Counters under the names that the driver or the kernel gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    pub(crate) names: Names,
    pub(crate) values: Vec<u64>,
}

impl Counters {
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
    pub pod: Option<Arc<Pod>>,
    /// What the kernel calls it.
    pub device: Device,
    /// What does not change.
    pub facts: Arc<Facts>,
    /// Its ports.
    pub ports: Vec<PortReading>,
    /// Counters of the device as a whole.
    pub counters: Counters,
    /// The traffic class of its packets, if one is set for all of them.
    pub traffic_class: Option<u32>,
    /// How many objects of each kind there are.
    pub resources: Option<ResourceCounts>,
    /// The objects that processes made.
    pub objects: Option<Objects>,
}

/// One port.
#[derive(Debug, Clone)]
pub struct PortReading {
    /// Number, state, link.
    pub port: Port,
    /// Hardware counters, in the driver's order.
    pub hw_counters: Counters,
    /// Standard counters.
    pub counters: Counters,
    /// Statistics of its link.
    pub link_statistics: Counters,
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
    pub entries: Vec<sysfs::Gid>,
}

impl PortReading {
    /// A port of which nothing more is known.
    pub(crate) fn of(port: Port) -> Self {
        Self {
            port,
            hw_counters: Counters::default(),
            counters: Counters::default(),
            link_statistics: Counters::default(),
            speed: None,
            gids: None,
        }
    }
}
