//! Counter sets that the kernel bound to the queue pairs of one process each, and the totals of pods from them.
//!
//! The exporter does not enable the binding. The operator does so with `rdma statistic qp set link mlx5_0/1 auto pid on`
//! before pods create their queue pairs. The kernel removes a set with its last queue pair. The pod keeps its counts, except
//! those between the last reading and the removal.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use rdma::{
    Device, HwCounter,
    resource::{BindMode, CounterSet, ResourceOwner},
};
use sysfs::Sysfs;

use crate::{
    Attribution, CollectError, Collector, DeviceResources, ErrorReason, PodInfo, RawCounters, ResourceHolder,
    counter_history::{CounterHistory, unwrap_counter},
    counter_layout::CounterLayouts,
    counter_values::CounterValues,
    resource_usage::HolderResolver,
};

/// The ports with queue pairs of user processes; contains `None` if the kernel does not report the port.
pub(crate) type UserPorts = BTreeSet<Option<u32>>;

/// Returns the ports on which user processes have queue pairs.
pub(crate) fn ports_in_use(objects: &DeviceResources) -> UserPorts {
    let users = objects.queue_pairs.iter().filter(|pair| !matches!(pair.owner, ResourceOwner::Kernel(_)));
    users.map(|pair| pair.port).collect()
}

/// Lists the counter sets of a device; `None` if they could not be read. Uses a separate netlink socket, which is unusable
/// after an incomplete dump.
pub(crate) fn read(
    node: &Sysfs,
    device: &Device,
    in_use: &UserPorts,
    errors: &mut Vec<CollectError>,
) -> Option<Vec<CounterSet>> {
    if in_use.is_empty() {
        return Some(Vec::new());
    }
    match query(node, device, in_use, errors) {
        Ok(sets) => Some(sets),
        Err(rdma::Error::NoSuchDevice { .. }) => None,
        Err(error) => {
            errors.push(CollectError::new(Collector::PidCounters, &error));
            None
        }
    }
}

fn query(
    node: &Sysfs,
    device: &Device,
    in_use: &UserPorts,
    errors: &mut Vec<CollectError>,
) -> Result<Vec<CounterSet>, rdma::Error> {
    let rdma = rdma::Handle::open(node)?;
    let sets = rdma.counter_sets(device)?.unwrap_or_default();
    for port in unbound(in_use, &sets) {
        let mode = rdma.counter_mode(device, port)?;
        if mode.is_some_and(|mode| mode.bind == BindMode::Auto) {
            errors.push(driver_does_not_bind(&device.name, port));
        }
    }
    Ok(sets)
}

/// Returns the ports on which no queue pair has a counter set.
fn unbound(in_use: &UserPorts, sets: &[CounterSet]) -> Vec<u32> {
    let is_bound = |port: &u32| sets.iter().any(|set| set.port == Some(*port));
    in_use.iter().copied().flatten().filter(|port| !is_bound(port)).collect()
}

/// Returns the error for a port without bound queue pairs. A driver that cannot bind accepts the setting without an error.
fn driver_does_not_bind(device: &str, port: u32) -> CollectError {
    let what = format!(
        "counter sets of RDMA device {device}, port {port}: automatic binding is enabled, but no queue pair is bound: \
         the driver does not bind, or all queue pairs were created before"
    );
    CollectError { collector: Collector::PidCounters, reason: ErrorReason::Unsupported, what }
}

/// Counter values by the driver's names.
type Values = BTreeMap<String, u64>;

/// The counter sets of the last collection, and the totals of each pod.
#[derive(Debug, Default)]
pub(crate) struct CounterSets {
    devices: HashMap<u32, HashMap<u32, LastCounterSet>>,
    totals: BTreeMap<Arc<PodInfo>, BTreeMap<(String, u32), Values>>,
}

/// The last reading of a counter set.
#[derive(Debug)]
struct LastCounterSet {
    port: u32,
    pod: Option<Arc<PodInfo>>,
    values: Values,
}

impl CounterSets {
    /// Adds a reading of a device's counter sets. `pod_of` returns the pod of a set.
    pub(crate) fn enter(
        &mut self,
        device: &Device,
        sets: &[CounterSet],
        mut pod_of: impl FnMut(&CounterSet) -> Option<Arc<PodInfo>>,
    ) {
        // A former exporter process may have exposed the values before the first reading.
        let is_first = !self.devices.contains_key(&device.index);
        let mut former = self.devices.remove(&device.index).unwrap_or_default();
        let mut now = HashMap::new();
        for set in sets {
            let kept = former.remove(&set.id);
            let Some(port) = set.port.filter(|_| is_of_one_process(set, kept.is_some())) else { continue };
            let pod = pod_of(set).or_else(|| kept.as_ref()?.pod.clone());
            // The kernel reuses IDs of counter sets, but not soon.
            let kept = kept.filter(|kept| kept.port == port && is_same(kept.pod.as_ref(), pod.as_ref()));
            if let Some(pod) = &pod {
                self.add(pod, (device.name.clone(), port), &set.counters, kept.as_ref(), is_first);
            }
            let values = set.counters.iter().map(|counter| (counter.name.clone(), counter.value)).collect();
            now.insert(set.id, LastCounterSet { port, pod, values });
        }
        self.devices.insert(device.index, now);
    }

    fn add(
        &mut self,
        pod: &Arc<PodInfo>,
        port: (String, u32),
        counters: &[HwCounter],
        before: Option<&LastCounterSet>,
        is_first: bool,
    ) {
        let totals = self.totals.entry(pod.clone()).or_default().entry(port).or_default();
        for HwCounter { name, value } in counters {
            let before = match before {
                Some(known) => known.values.get(name).copied().unwrap_or(*value),
                None if is_first => *value,
                None => 0, // the set starts at 0 with its first queue pair
            };
            let total = totals.entry(name.clone()).or_default();
            *total = total.wrapping_add(unwrap_counter(true, before, 0, *value).1);
        }
    }

    /// Removes pods and devices that are gone.
    pub(crate) fn forget(&mut self, lives: impl Fn(&PodInfo) -> bool, is_there: impl Fn(u32) -> bool) {
        self.totals.retain(|pod, _| lives(pod));
        self.devices.retain(|device, _| is_there(*device));
    }

    /// Copies the totals of pods into their accounts.
    pub(crate) fn publish_totals(&self, layouts: &mut CounterLayouts, history: &mut CounterHistory) {
        for (pod, ports) in &self.totals {
            for ((device, port), totals) in ports {
                let counters: RawCounters =
                    totals.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                let none = RawCounters::default();
                let counter_values = CounterValues::of([&counters, &none, &none], layouts, None);
                history.set_account(
                    pod.clone(),
                    (device.clone(), *port, Attribution::PidCounter),
                    counter_values,
                );
            }
        }
    }
}

/// Whether the kernel bound the set by process. It reports the thread that created the queue pairs only while the thread
/// exists. A set that is bound by queue pair type has a type.
fn is_of_one_process(set: &CounterSet, is_known: bool) -> bool {
    let is_by_process = matches!(set.owner, ResourceOwner::Process(_)) || set.kind.is_none();
    set.mode == BindMode::Auto && (is_by_process || is_known)
}

/// Whether the pod of a set is unchanged. It can also have been unknown, or known only by its UID.
fn is_same(before: Option<&Arc<PodInfo>>, now: Option<&Arc<PodInfo>>) -> bool {
    before.zip(now).is_none_or(|(before, now)| before == now || before.uid.is_some() && before.uid == now.uid)
}

/// Returns the pod of a set: that of its thread, or of any of its queue pairs.
pub(crate) fn pod(
    set: &CounterSet,
    resolver: &mut HolderResolver<'_>,
    pairs: &HashMap<u32, ResourceHolder>,
) -> Option<Arc<PodInfo>> {
    let by_pairs = || set.queue_pairs.iter().find_map(|number| pairs.get(number).cloned());
    match resolver.maker(&set.owner).or_else(by_pairs) {
        Some(ResourceHolder::Pod(pod)) => Some(pod),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
