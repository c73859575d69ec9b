//! What one collection of the exporter says about devices and pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use exporter::{CommonTotals, NodeSnapshot, PodInfo, ResourceHolder};

/// A reading of the counters of the node.
#[derive(Debug)]
pub(super) struct Sample {
    /// When it was taken, by a clock that is never set.
    pub(super) at: Duration,
    /// When it was taken, by the clock of the node.
    pub(super) time: SystemTime,
    /// The counters, each with the finest key: counters of one key are reset together.
    pub(super) counters: BTreeMap<CounterKey, CommonTotals>,
    pub(super) devices: BTreeMap<u32, DeviceUse>,
    pub(super) pods: BTreeMap<PodName, PodUse>,
    /// What could not be read.
    pub(super) problems: Vec<String>,
}

/// Whose counters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CounterKey {
    /// A port of the device with an index.
    Port(u32, u32),
    /// A pod, on a port of a device, by one method of attribution.
    Pod(PodInfo, String, u32, &'static str),
}

/// A device, and who uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DeviceUse {
    pub(super) name: String,
    /// The pod that has the device in its network namespace.
    pub(super) pod: Option<PodName>,
    pub(super) queue_pairs: Option<u64>,
}

/// The devices and queue pairs of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PodUse {
    pub(super) devices: BTreeSet<String>,
    pub(super) queue_pairs: Option<u64>,
}

/// The namespace and the name of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodName {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl From<&PodInfo> for PodName {
    fn from(pod: &PodInfo) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone() }
    }
}

impl Sample {
    pub(super) fn of(snapshot: &NodeSnapshot, at: Duration) -> Self {
        let mut sample = Self {
            at,
            time: snapshot.taken,
            counters: BTreeMap::new(),
            devices: BTreeMap::new(),
            pods: snapshot.pods.keys().map(|pod| (PodName::from(&**pod), PodUse::default())).collect(),
            problems: Vec::new(),
        };
        sample.add_devices(snapshot);
        for traffic in &snapshot.traffic {
            let pod = sample.pods.entry(PodName::from(&*traffic.pod)).or_default();
            pod.devices.insert(traffic.device.clone());
            let way = traffic.attribution.name();
            let key = CounterKey::Pod((*traffic.pod).clone(), traffic.device.clone(), traffic.port, way);
            sample.counters.insert(key, traffic.totals());
        }
        let failures = snapshot.errors.iter().filter(|error| error.reason.counts_as_failure());
        sample.problems = failures.map(|error| error.what.clone()).collect();
        sample
    }

    fn add_devices(&mut self, snapshot: &NodeSnapshot) {
        for device in &snapshot.devices {
            let reading = &device.reading;
            let (index, name) = (reading.device.index, &reading.device.name);
            for (port, totals) in reading.ports.iter().zip(device.totals()) {
                self.counters.insert(CounterKey::Port(index, port.port.port), totals);
            }
            let seen = DeviceUse {
                name: name.clone(),
                pod: reading.pod.as_deref().map(PodName::from),
                queue_pairs: reading.resources.as_ref().and_then(|counts| counts.qp),
            };
            self.devices.insert(index, seen);
            for (holder, share) in device.usage.iter().flat_map(|usage| &usage.shares) {
                let ResourceHolder::Pod(pod) = holder else { continue };
                let pod = self.pods.entry(PodName::from(&**pod)).or_default();
                pod.devices.insert(name.clone());
                *pod.queue_pairs.get_or_insert(0) += share.counts.get("qp").copied().unwrap_or(0);
            }
        }
    }
}
