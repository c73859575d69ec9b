//! Tests of `counter_sets`.

use rdma::{
    Guid,
    resource::{QpState, QpType, QueuePair},
};

use super::*;

#[derive(Default)]
struct CounterSetsTest {
    sets: CounterSets,
    layouts: CounterLayouts,
    history: CounterHistory,
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

/// A counter set of a thread. The thread's number is also the UID of its pod.
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
        self.sets.publish_totals(&mut self.layouts, &mut self.history);
    }

    /// Returns the metric names and values of a pod's account.
    fn account(&self, uid: &str) -> Vec<(Option<String>, u64)> {
        let Some(accounts) = self.history.accounts().get(&pod("a", uid)) else { return Vec::new() };
        let counter_values = &accounts[&("mlx5_0".to_owned(), 1, Attribution::PidCounter)];
        let names = counter_values.layout.shown.iter().map(|shown| shown.metric.pod_family.clone());
        names.zip(counter_values.values.iter().copied()).collect()
    }

    fn retries(&self, uid: &str) -> Option<u64> {
        self.account(uid).first().map(|(_, value)| *value)
    }
}

#[test]
fn counts_of_a_pod_add_up_and_remain_after_its_sets_end() {
    let mut test = CounterSetsTest::default();
    test.enter(&[]);
    test.enter(&[retries(1, 304, 10), retries(2, 304, 5)]);
    assert_eq!(test.retries("304"), Some(15), "each set starts at 0");
    test.enter(&[retries(2, 304, 6)]);
    assert_eq!(test.retries("304"), Some(16));
    test.enter(&[]);
    test.enter(&[retries(3, 304, 4)]);
    assert_eq!(test.retries("304"), Some(20));
    let name = test.account("304").remove(0).0;
    assert_eq!(name.as_deref(), Some("rdma_pod_local_ack_timeout_err_total"));
}

#[test]
fn values_before_the_first_reading_are_not_counted() {
    let mut test = CounterSetsTest::default();
    test.enter(&[retries(1, 304, 1000)]);
    assert_eq!(test.retries("304"), Some(0));
    test.enter(&[retries(1, 304, 1003)]);
    assert_eq!(test.retries("304"), Some(3));
}

#[test]
fn a_reused_id_is_a_new_set_of_another_pod() {
    let mut test = CounterSetsTest::default();
    test.enter(&[]);
    test.enter(&[retries(1, 304, 10)]);
    test.enter(&[retries(1, 305, 12)]);
    assert_eq!((test.retries("304"), test.retries("305")), (Some(10), Some(12)));
    test.enter(&[retries(1, 305, 3)]);
    assert_eq!(test.retries("305"), Some(15), "the same pod after a counter reset");
}

#[test]
fn a_32_bit_counter_continues_after_a_wrap() {
    let mut test = CounterSetsTest::default();
    test.enter(&[]);
    test.enter(&[retries(1, 304, 4294967290)]);
    test.enter(&[retries(1, 304, 4)]);
    assert_eq!(test.retries("304"), Some(4294967300));
}

#[test]
fn a_set_of_an_ended_thread_still_belongs_to_its_pod() {
    let mut test = CounterSetsTest::default();
    test.enter(&[]);
    test.enter(&[retries(1, 304, 10)]);
    let orphan = CounterSet { owner: ResourceOwner::Unknown, kind: Some(QpType::Rc), ..retries(1, 0, 11) };
    test.enter(&[orphan]);
    assert_eq!(test.retries("304"), Some(11));
}

#[test]
fn sets_bound_by_type_or_manually_belong_to_no_pod() {
    let mut test = CounterSetsTest::default();
    test.enter(&[]);
    let by_type = CounterSet { owner: ResourceOwner::Unknown, kind: Some(QpType::Rc), ..retries(1, 0, 9) };
    let manual = CounterSet { mode: BindMode::Manual, ..retries(2, 304, 9) };
    test.sets.enter(&device(), &[by_type, manual], |_| Some(pod("a", "304")));
    test.sets.publish_totals(&mut test.layouts, &mut test.history);
    assert_eq!(test.retries("304"), None);
}

#[test]
fn bytes_are_present_only_with_optional_counters() {
    use crate::catalogue::{CommonMetric, Direction::Transmit};
    let mut test = CounterSetsTest::default();
    test.enter(&[]);
    let more = set(2, 305, &[("local_ack_timeout_err", 1), ("rdma_tx_bytes", 4096)]);
    test.enter(&[retries(1, 304, 1), retries(3, 305, 1), more]);
    let sum = |uid: &str| {
        let account = &test.history.accounts()[&pod("a", uid)];
        account.values().next().unwrap().sum(CommonMetric::Bytes(Transmit))
    };
    assert_eq!((sum("304"), sum("305")), (None, Some(4096)));
    assert_eq!(test.account("305").iter().map(|(_, value)| value).sum::<u64>(), 4098);
}

#[test]
fn a_recreated_pod_starts_at_zero() {
    let mut test = CounterSetsTest::default();
    test.enter(&[]);
    test.enter(&[retries(1, 304, 10)]);
    let lives = |pod: &PodInfo| pod.uid.as_deref() != Some("304");
    test.sets.forget(lives, |_| true);
    test.history.forget(lives);
    test.enter(&[retries(2, 305, 1)]);
    assert_eq!((test.retries("304"), test.retries("305")), (None, Some(1)));
}

#[test]
fn a_device_that_returns_is_a_new_device() {
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

#[test]
fn a_pod_is_the_same_by_its_uid_or_while_it_is_unknown() {
    let nameless = |name: &str| Arc::new(PodInfo { namespace: "ml".into(), name: name.into(), uid: None });
    for (before, now, is) in [
        (Some(pod("1", "1")), Some(pod("a", "1")), true), // its name is known by now
        (Some(pod("a", "1")), Some(pod("a", "2")), false),
        (Some(nameless("a")), Some(nameless("a")), true),
        (Some(nameless("a")), Some(nameless("b")), false),
        (None, Some(pod("a", "1")), true),
        (Some(pod("a", "1")), None, true),
    ] {
        assert_eq!(is_same(before.as_ref(), now.as_ref()), is, "{before:?} {now:?}");
    }
}
