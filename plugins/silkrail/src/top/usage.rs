//! The rates of each device and of each pod between two samples.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

use super::{
    rates::Rates,
    sample::{CounterKey, PodName, Sample},
};

/// What `--json` prints for each interval.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeUsage {
    /// The end of the interval, in seconds since 1970, by the clock of the node.
    pub(super) time: f64,
    /// The length of the interval in seconds.
    pub(super) interval: f64,
    pub(super) devices: Vec<DeviceUsage>,
    pub(super) pods: Vec<PodUsage>,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) problems: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeviceUsage {
    pub(super) name: String,
    /// The pod that has it in its network namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<PodLabel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue_pairs: Option<u64>,
    pub(super) per_second: Rates,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodUsage {
    #[serde(flatten)]
    pub(super) label: PodLabel,
    pub(super) devices: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue_pairs: Option<u64>,
    pub(super) per_second: Rates,
}

/// The namespace and name of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PodLabel {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl NodeUsage {
    /// Returns the rates since the sample before; without one, or in no time, none are known.
    pub(super) fn since(before: Option<&Sample>, now: &Sample) -> Self {
        let before = before.filter(|before| before.at < now.at);
        let interval = before.map_or(Duration::ZERO, |before| now.at - before.at).as_secs_f64();
        let mut of_devices: BTreeMap<u32, Rates> = BTreeMap::new();
        let mut of_pods: BTreeMap<PodName, Rates> = BTreeMap::new();
        for (key, totals) in &now.counters {
            let Some(former) = before.and_then(|before| before.counters.get(key)) else { continue };
            let rates = Rates::between(former, totals, interval);
            match key {
                CounterKey::Port(device, _) => of_devices.entry(*device).or_default().add(rates),
                CounterKey::Pod(pod, ..) => of_pods.entry(PodName::from(pod)).or_default().add(rates),
            }
        }
        let devices = now.devices.iter().map(|(index, device)| DeviceUsage {
            name: device.name.clone(),
            pod: device.pod.as_ref().map(PodLabel::from),
            queue_pairs: device.queue_pairs,
            per_second: of_devices.remove(index).unwrap_or_default(),
        });
        let pods = now.pods.iter().map(|(pod, uses)| PodUsage {
            label: pod.into(),
            devices: uses.devices.iter().cloned().collect(),
            queue_pairs: uses.queue_pairs,
            per_second: of_pods.remove(pod).unwrap_or_default(),
        });
        Self {
            time: seconds(now.time),
            interval,
            devices: devices.collect(),
            pods: pods.collect(),
            problems: now.problems.clone(),
        }
    }
}

impl From<&PodName> for PodLabel {
    fn from(pod: &PodName) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone() }
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}
