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
    resource::{self, BindMode, CounterSet, ResourceOwner},
};
use sysfs::Sysfs;

use crate::{
    Attribution, CollectError, Collector, DeviceResources, ErrorReason, PodInfo, RawCounters, ResourceHolder,
    layout::CounterLayouts,
    ledger::{CounterHistory, unwrap_counter},
    sheet::CounterValues,
    usage::HolderResolver,
};

/// The ports whose queue pairs programs made; `None` of a kernel that does not tell.
pub(crate) type UserPorts = BTreeSet<Option<u32>>;

/// The ports that programs have queue pairs on.
pub(crate) fn ports_in_use(objects: &DeviceResources) -> UserPorts {
    let users = objects.queue_pairs.iter().filter(|pair| !matches!(pair.owner, ResourceOwner::Kernel(_)));
    users.map(|pair| pair.port).collect()
}

/// Lists a device's sets; `None` if they could not be read. On a socket of its own: after a list that has no end it is of
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
    let mut socket = rdma::open(node)?;
    let sets = resource::counter_sets(&mut socket, device)?.unwrap_or_default();
    for port in unbound(in_use, &sets) {
        let mode = resource::counter_mode(&mut socket, device, port)?;
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
mod tests {
    use rdma::{
        Guid,
        resource::{QpState, QpType, QueuePair},
    };

    use super::*;

    #[derive(Default)]
    struct CounterSetsTest {
        sets: CounterSets,
        layouts: CounterLayouts,
        ledger: CounterHistory,
    }

    fn device() -> Device {
        Device {
            index: 7,
            name: "mlx5_0".into(),
            node_guid: Guid(0),
            sys_image_guid: Guid(0),
            fw_version: None,
            node_type: None,
            protocol: None,
            ports: 1,
            adaptive_moderation: None,
        }
    }

    fn pod(name: &str, uid: &str) -> Arc<PodInfo> {
        Arc::new(PodInfo { namespace: "ml".into(), name: name.into(), uid: Some(uid.into()) })
    }

    /// A set of a thread, whose number is that of its pod's UID.
    fn set(id: u32, thread: u32, counters: &[(&str, u64)]) -> CounterSet {
        CounterSet {
            id,
            port: Some(1),
            mode: BindMode::Auto,
            kind: None,
            owner: ResourceOwner::Process(thread),
            queue_pairs: vec![17],
            counters: counters
                .iter()
                .map(|(name, value)| HwCounter { name: (*name).into(), value: *value })
                .collect(),
        }
    }

    fn retries(id: u32, thread: u32, value: u64) -> CounterSet {
        set(id, thread, &[("local_ack_timeout_err", value)])
    }

    impl CounterSetsTest {
        fn enter(&mut self, sets: &[CounterSet]) {
            self.sets.enter(&device(), sets, |set| match set.owner {
                ResourceOwner::Process(thread) => Some(pod("a", &thread.to_string())),
                _ => None,
            });
            self.sets.publish_totals(&mut self.layouts, &mut self.ledger);
        }

        /// What a pod's account shows: the driver's names and their values.
        fn account(&self, uid: &str) -> Vec<(Option<String>, u64)> {
            let Some(accounts) = self.ledger.accounts().get(&pod("a", uid)) else { return Vec::new() };
            let sheet = &accounts[&("mlx5_0".to_owned(), 1, Attribution::PidCounter)];
            let names = sheet.layout.shown.iter().map(|shown| shown.metric.pod_family.clone());
            names.zip(sheet.values.iter().copied()).collect()
        }

        fn retries(&self, uid: &str) -> Option<u64> {
            self.account(uid).first().map(|(_, value)| *value)
        }
    }

    #[test]
    fn what_sets_of_a_pod_count_adds_up_and_stays_when_they_end() {
        let mut test = CounterSetsTest::default();
        test.enter(&[]);
        test.enter(&[retries(1, 304, 10), retries(2, 304, 5)]);
        assert_eq!(test.retries("304"), Some(15), "each began when its first queue pair was made");
        test.enter(&[retries(2, 304, 6)]);
        assert_eq!(test.retries("304"), Some(16));
        test.enter(&[]);
        test.enter(&[retries(3, 304, 4)]);
        assert_eq!(test.retries("304"), Some(20));
        let name = test.account("304").remove(0).0;
        assert_eq!(name.as_deref(), Some("rdma_pod_local_ack_timeout_err_total"));
    }

    #[test]
    fn what_was_counted_before_the_first_reading_is_not_told_again() {
        let mut test = CounterSetsTest::default();
        test.enter(&[retries(1, 304, 1000)]);
        assert_eq!(test.retries("304"), Some(0));
        test.enter(&[retries(1, 304, 1003)]);
        assert_eq!(test.retries("304"), Some(3));
    }

    #[test]
    fn a_number_that_is_used_again_counts_neither_twice_nor_for_the_former_pod() {
        let mut test = CounterSetsTest::default();
        test.enter(&[]);
        test.enter(&[retries(1, 304, 10)]);
        test.enter(&[retries(1, 305, 12)]);
        assert_eq!((test.retries("304"), test.retries("305")), (Some(10), Some(12)));
        test.enter(&[retries(1, 305, 3)]);
        assert_eq!(test.retries("305"), Some(15), "the same pod's, and begun anew");
    }

    #[test]
    fn a_counter_of_32_bits_that_turns_over_goes_on() {
        let mut test = CounterSetsTest::default();
        test.enter(&[]);
        test.enter(&[retries(1, 304, 4294967290)]);
        test.enter(&[retries(1, 304, 4)]);
        assert_eq!(test.retries("304"), Some(4294967300));
    }

    #[test]
    fn a_set_whose_thread_ended_is_still_its_pod_s() {
        let mut test = CounterSetsTest::default();
        test.enter(&[]);
        test.enter(&[retries(1, 304, 10)]);
        let orphan =
            CounterSet { owner: ResourceOwner::Unknown, kind: Some(QpType::Rc), ..retries(1, 0, 11) };
        test.enter(&[orphan]);
        assert_eq!(test.retries("304"), Some(11));
    }

    #[test]
    fn sets_of_a_type_and_an_operator_s_own_are_no_pod_s() {
        let mut test = CounterSetsTest::default();
        test.enter(&[]);
        let by_type =
            CounterSet { owner: ResourceOwner::Unknown, kind: Some(QpType::Rc), ..retries(1, 0, 9) };
        let manual = CounterSet { mode: BindMode::Manual, ..retries(2, 304, 9) };
        test.sets.enter(&device(), &[by_type, manual], |_| Some(pod("a", "304")));
        test.sets.publish_totals(&mut test.layouts, &mut test.ledger);
        assert_eq!(test.retries("304"), None);
    }

    #[test]
    fn bytes_are_there_where_optional_counters_are_and_absent_elsewhere() {
        use crate::catalogue::{CommonMetric, Direction::Transmit};
        let mut test = CounterSetsTest::default();
        test.enter(&[]);
        let more = set(2, 305, &[("local_ack_timeout_err", 1), ("rdma_tx_bytes", 4096)]);
        test.enter(&[retries(1, 304, 1), retries(3, 305, 1), more]);
        let sum = |uid: &str| {
            let account = &test.ledger.accounts()[&pod("a", uid)];
            account.values().next().unwrap().sum(CommonMetric::Bytes(Transmit))
        };
        assert_eq!((sum("304"), sum("305")), (None, Some(4096)));
        assert_eq!(test.account("305").iter().map(|(_, value)| value).sum::<u64>(), 4098);
    }

    #[test]
    fn a_pod_that_is_gone_is_forgotten_and_one_of_its_name_starts_anew() {
        let mut test = CounterSetsTest::default();
        test.enter(&[]);
        test.enter(&[retries(1, 304, 10)]);
        let lives = |pod: &PodInfo| pod.uid.as_deref() != Some("304");
        test.sets.forget(lives, |_| true);
        test.ledger.forget(lives);
        test.enter(&[retries(2, 305, 1)]);
        assert_eq!((test.retries("304"), test.retries("305")), (None, Some(1)));
    }

    #[test]
    fn a_device_that_came_again_is_read_for_the_first_time() {
        let mut test = CounterSetsTest::default();
        test.enter(&[]);
        test.enter(&[retries(1, 304, 10)]);
        test.sets.forget(|_| true, |_| false);
        test.enter(&[retries(1, 304, 12)]);
        assert_eq!(test.retries("304"), Some(10));
    }

    #[test]
    fn a_port_is_unbound_while_none_of_its_queue_pairs_has_a_set() {
        let pair = |port, owner| QueuePair {
            number: 17,
            port,
            kind: QpType::Rc,
            subtype: None,
            state: QpState::Rts,
            owner,
            protection_domain: None,
            remote_number: None,
            send_psn: None,
            receive_psn: None,
        };
        let user = |port| pair(Some(port), ResourceOwner::Process(304));
        let objects = DeviceResources {
            queue_pairs: vec![
                user(1),
                user(2),
                pair(Some(3), ResourceOwner::Kernel("ib_core".into())),
                pair(None, ResourceOwner::Unknown),
            ],
            ..DeviceResources::default()
        };
        let in_use = ports_in_use(&objects);
        assert_eq!(unbound(&in_use, &[retries(1, 304, 0)]), [2]);
        assert_eq!(unbound(&in_use, &[]), [1, 2]);
    }
}
