//! Sets of hardware counters that the kernel bound to the queue pairs of one process each, and what pods did by them.
//!
//! Nothing is switched on here: whoever runs the node tells the kernel to bind (`rdma statistic qp set link mlx5_0/1 auto
//! pid on`), before the pods make their queue pairs. A set ends with its last queue pair, so what it counted is kept for
//! its pod; what it counted between the last reading and its end is lost for the pod.

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

/// The ports whose queue pairs programs made; `None` of a kernel that does not tell.
pub(crate) type UserPorts = BTreeSet<Option<u32>>;

/// The ports that programs have queue pairs on.
pub(crate) fn ports_in_use(objects: &DeviceResources) -> UserPorts {
    let users = objects.queue_pairs.iter().filter(|pair| !matches!(pair.owner, ResourceOwner::Kernel(_)));
    users.map(|pair| pair.port).collect()
}

/// Lists a device's sets; `None` if they could not be read. On a rdma of its own: after a list that has no end it is of
/// no more use.
pub(crate) fn read(
    node: &Sysfs,
    device: &Device,
    in_use: &UserPorts,
    troubles: &mut Vec<CollectError>,
) -> Option<Vec<CounterSet>> {
    if in_use.is_empty() {
        return Some(Vec::new());
    }
    match query(node, device, in_use, troubles) {
        Ok(sets) => Some(sets),
        Err(rdma::Error::NoSuchDevice { .. }) => None,
        Err(error) => {
            troubles.push(CollectError::new(Collector::PidCounters, &error));
            None
        }
    }
}

fn query(
    node: &Sysfs,
    device: &Device,
    in_use: &UserPorts,
    troubles: &mut Vec<CollectError>,
) -> Result<Vec<CounterSet>, rdma::Error> {
    let rdma = rdma::Handle::open(node)?;
    let sets = rdma.counter_sets(device)?.unwrap_or_default();
    for port in unbound(in_use, &sets) {
        let mode = rdma.counter_mode(device, port)?;
        if mode.is_some_and(|mode| mode.bind == BindMode::Auto) {
            troubles.push(driver_does_not_bind(&device.name, port));
        }
    }
    Ok(sets)
}

/// The ports whose queue pairs have no set.
fn unbound(in_use: &UserPorts, sets: &[CounterSet]) -> Vec<u32> {
    let is_bound = |port: &u32| sets.iter().any(|set| set.port == Some(*port));
    in_use.iter().copied().flatten().filter(|port| !is_bound(port)).collect()
}

/// A driver that cannot bind does not say so when it is told to.
fn driver_does_not_bind(device: &str, port: u32) -> CollectError {
    let what = format!(
        "counter sets of RDMA device {device}, port {port}: the kernel is to bind queue pairs, and none is bound: the \
         driver does not bind, or all were made before it was told to"
    );
    CollectError { collector: Collector::PidCounters, reason: ErrorReason::Unsupported, what }
}

/// Counters by the driver's names.
type Values = BTreeMap<String, u64>;

/// The sets of the last collection, and what each pod's sets have counted so far.
#[derive(Debug, Default)]
pub(crate) struct CounterSets {
    devices: HashMap<u32, HashMap<u32, LastCounterSet>>,
    totals: BTreeMap<Arc<PodInfo>, BTreeMap<(String, u32), Values>>,
}

/// A set as it was last read.
#[derive(Debug)]
struct LastCounterSet {
    port: u32,
    pod: Option<Arc<PodInfo>>,
    values: Values,
}

impl CounterSets {
    /// Enters what a device's sets say now. `whose` finds the pod of a set.
    pub(crate) fn enter(
        &mut self,
        device: &Device,
        sets: &[CounterSet],
        mut whose: impl FnMut(&CounterSet) -> Option<Arc<PodInfo>>,
    ) {
        // What was counted before the first reading may have been told already, by an exporter before this one.
        let is_first = !self.devices.contains_key(&device.index);
        let mut former = self.devices.remove(&device.index).unwrap_or_default();
        let mut now = HashMap::new();
        for set in sets {
            let kept = former.remove(&set.id);
            let Some(port) = set.port.filter(|_| is_of_one_process(set, kept.is_some())) else { continue };
            let pod = whose(set).or_else(|| kept.as_ref()?.pod.clone());
            // Numbers of sets are used again, if not soon.
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
                None => 0, // it began to count when its first queue pair was made
            };
            let total = totals.entry(name.clone()).or_default();
            *total = total.wrapping_add(unwrap_counter(true, before, 0, *value).1);
        }
    }

    /// Forgets pods that are gone, and devices.
    pub(crate) fn forget(&mut self, lives: impl Fn(&PodInfo) -> bool, is_there: impl Fn(u32) -> bool) {
        self.totals.retain(|pod, _| lives(pod));
        self.devices.retain(|device, _| is_there(*device));
    }

    /// Shows pods' totals in their accounts.
    pub(crate) fn publish_totals(&self, layouts: &mut CounterLayouts, ledger: &mut CounterHistory) {
        for (pod, ports) in &self.totals {
            for ((device, port), totals) in ports {
                let counters: RawCounters =
                    totals.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                let none = RawCounters::default();
                let sheet = CounterValues::of([&counters, &none, &none], layouts, None);
                ledger.set_account(pod.clone(), (device.clone(), *port, Attribution::PidCounter), sheet);
            }
        }
    }
}

/// Whether the kernel bound it, by the thread that made its queue pairs. That is not told any more when the thread has
/// ended; a type is told of a set that the kernel bound by type, perhaps alone.
fn is_of_one_process(set: &CounterSet, is_known: bool) -> bool {
    let told = matches!(set.owner, ResourceOwner::Process(_)) || set.kind.is_none();
    set.mode == BindMode::Auto && (told || is_known)
}

/// Whether a set may still be the same: its pod may have been unknown, and get its name.
fn is_same(before: Option<&Arc<PodInfo>>, now: Option<&Arc<PodInfo>>) -> bool {
    before.zip(now).is_none_or(|(before, now)| before == now || before.uid.is_some() && before.uid == now.uid)
}

/// The pod of a set: the one of the thread, or of any of its queue pairs.
pub(crate) fn pod(
    set: &CounterSet,
    whose: &mut HolderResolver<'_>,
    pairs: &HashMap<u32, ResourceHolder>,
) -> Option<Arc<PodInfo>> {
    let by_pairs = || set.queue_pairs.iter().find_map(|number| pairs.get(number).cloned());
    match whose.maker(&set.owner).or_else(by_pairs) {
        Some(ResourceHolder::Pod(pod)) => Some(pod),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
