//! Tests of the counter history: readings, exposed values and attribution.

use super::*;
use crate::{
    Attribution,
    catalogue::CommonMetric,
    counter_layout::{CounterLayouts, tests::port},
};

pub(super) struct HistoryTest {
    pub(super) history: CounterHistory,
    pub(super) layouts: CounterLayouts,
    pub(super) device: String,
    pub(super) port: PortKey,
}

const PORT: PortKey = (7, 1);

impl HistoryTest {
    pub(super) fn new() -> Self {
        let device = "0000:af:00.0".to_owned();
        Self { history: CounterHistory::default(), layouts: CounterLayouts::default(), device, port: PORT }
    }

    pub(super) fn resets(&self) -> u64 {
        self.history.resets(PORT).unwrap()
    }

    /// Adds a reading of `out_of_sequence` and `port_rcv_data`, and returns the exposed value of the first.
    pub(super) fn enter(&mut self, owner: PortUser, sequence: u64, words: u64) -> u64 {
        self.enter_with(owner, &[("out_of_sequence", sequence)], words)
    }

    pub(super) fn enter_with(&mut self, owner: PortUser, hw: &[(&str, u64)], words: u64) -> u64 {
        let port = port(hw, &[("port_rcv_data", words)], &[]);
        let last = self.history.layout(self.port);
        let mut counter_values = CounterValues::of_port(&port, &mut self.layouts, last);
        self.history.update_port(self.port, ("mlx5_0", &self.device), owner, &mut counter_values);
        counter_values.values[0]
    }

    fn of(&self, pod: &Arc<PodInfo>) -> Option<u64> {
        let accounts = self.history.accounts().get(pod)?;
        Some(accounts.values().map(|account| account.values[0]).sum())
    }

    fn unattributed(&self) -> u64 {
        self.history.unattributed(PORT).map(|(_, bytes)| bytes).sum()
    }
}

fn pod(name: &str, uid: &str) -> Arc<PodInfo> {
    Arc::new(PodInfo { namespace: "ml".into(), name: name.into(), uid: Some(uid.into()) })
}

fn alone(pod: &Arc<PodInfo>) -> PortUser {
    Some((pod.clone(), Attribution::SoleUser))
}

#[test]
fn a_32_bit_counter_continues_after_a_wrap() {
    let mut test = HistoryTest::new();
    assert_eq!(test.enter(None, 4294967290, 0), 4294967290);
    assert_eq!(test.enter(None, 4, 0), 4294967300);
    assert_eq!(test.enter(None, 5, 0), 4294967301);
}

#[test]
fn a_counter_reset_is_exposed() {
    let mut test = HistoryTest::new();
    test.enter(None, 4294967290, 0);
    test.enter(None, 4, 0);
    assert_eq!(test.enter(None, 3, 0), 3, "not a wrap: it was in the lower half");
    let a = pod("a", "1");
    test.enter(alone(&a), 100, 0);
    test.enter(alone(&a), 2, 0);
    assert_eq!(test.of(&a), Some(2), "since the reset");
}

#[test]
fn increments_are_attributed_to_the_sole_user() {
    let (mut test, a, b) = (HistoryTest::new(), pod("a", "1"), pod("b", "2"));
    test.enter(None, 1000, 1000);
    test.enter(alone(&a), 1010, 1010);
    assert_eq!((test.of(&a), test.unattributed()), (Some(0), 40), "the owner of the first ten is unknown");
    test.enter(alone(&a), 1015, 1015);
    assert_eq!((test.of(&a), test.unattributed()), (Some(5), 40));
    test.enter(None, 1020, 1020); // b started
    assert_eq!((test.of(&a), test.unattributed()), (Some(5), 60));
    test.enter(alone(&b), 1030, 1030); // a ended
    test.enter(alone(&b), 1033, 1033);
    assert_eq!((test.of(&a), test.of(&b), test.unattributed()), (Some(5), Some(3), 100));
}

#[test]
fn values_before_the_first_reading_are_not_attributed() {
    let (mut test, a) = (HistoryTest::new(), pod("a", "1"));
    test.enter(alone(&a), 1000, 1000);
    assert_eq!((test.of(&a), test.unattributed()), (Some(0), 0));
}

#[test]
fn a_recreated_pod_starts_at_zero() {
    let (mut test, first, second) = (HistoryTest::new(), pod("a", "1"), pod("a", "2"));
    test.enter(alone(&first), 0, 0);
    test.enter(alone(&first), 9, 0);
    test.history.forget(|pod| pod.uid.as_deref() == Some("2"));
    test.enter(alone(&second), 9, 0);
    assert_eq!((test.of(&first), test.of(&second)), (None, Some(0)));
}

#[test]
fn of_two_pods_with_the_same_name_the_newer_one_is_kept() {
    let (mut test, first, second) = (HistoryTest::new(), pod("a", "2"), pod("a", "1"));
    test.enter(alone(&first), 0, 0);
    test.enter(alone(&second), 9, 0);
    test.history.forget(|_| true);
    assert_eq!((test.of(&first), test.of(&second)), (None, Some(0)));
    // An object of the former pod is still there.
    test.enter(alone(&first), 12, 0);
    test.history.forget(|_| true);
    assert_eq!((test.of(&first), test.of(&second)), (None, Some(0)));
    test.enter(alone(&first), 13, 0);
    test.history.forget(|pod| *pod == *first);
    assert_eq!((test.of(&first), test.of(&second)), (Some(1), None), "the newer one has ended first");
}

#[test]
fn a_running_pod_keeps_its_last_value() {
    let (mut test, a) = (HistoryTest::new(), pod("a", "1"));
    test.enter(alone(&a), 0, 0);
    test.enter(alone(&a), 9, 0);
    for _ in 0..3 {
        test.enter(None, 20, 0);
        test.history.forget(|_| true);
    }
    assert_eq!(test.of(&a), Some(9));
}

#[test]
fn a_removed_port_is_forgotten() {
    let mut test = HistoryTest::new();
    test.enter(None, 4294967290, 0);
    test.history.forget(|_| true);
    test.history.forget(|_| true);
    assert_eq!(test.enter(None, 4, 0), 4);
}

#[test]
fn counters_that_appear_and_disappear_do_not_affect_others() {
    let (mut test, a) = (HistoryTest::new(), pod("a", "1"));
    test.enter(alone(&a), 4294967290, 10);
    test.enter_with(alone(&a), &[("new", 500), ("out_of_sequence", 4294967295)], 20);
    let account = test.history.accounts()[&a].values().next().unwrap().clone();
    assert_eq!(account.values, [0, 5, 10], "the increment of a new counter is 0");
    assert_eq!(test.enter(alone(&a), 4, 25), 4294967300);
    let account = test.history.accounts()[&a].values().next().unwrap();
    assert_eq!(account.values, [0, 10, 15], "an absent counter keeps its value");
    assert_eq!(test.unattributed(), 0);
}

#[test]
fn a_counter_continues_after_a_reading_without_it() {
    let (mut test, a) = (HistoryTest::new(), pod("a", "1"));
    test.enter(alone(&a), 4294967290, 0);
    assert_eq!(test.enter(alone(&a), 4, 0), 4294967300);
    test.enter_with(alone(&a), &[("other", 1)], 0);
    assert_eq!(test.enter(alone(&a), 6, 0), 4294967302, "not 6: it had wrapped around");
    assert_eq!(test.of(&a), Some(12));
}

/// Returns the exposed sum of received bytes after a reading of these counters.
fn bytes(test: &mut HistoryTest, standard: &[(&str, u64)], link: &[(&str, u64)]) -> Option<u64> {
    let port = port(&[], standard, link);
    let mut counter_values = CounterValues::of_port(&port, &mut test.layouts, test.history.layout(PORT));
    test.history.update_port(PORT, ("mlx5_0", "mlx5_0"), None, &mut counter_values);
    counter_values.sum(CommonMetric::Bytes(Direction::Receive))
}

#[test]
fn a_sum_does_not_change_to_a_worse_source() {
    let mut test = HistoryTest::new();
    let (words, link) = ([("port_rcv_data", 100)], [("rx_vport_rdma_unicast_bytes", 390)]);
    let multicast = ("rx_vport_rdma_multicast_bytes", 5);
    assert_eq!(bytes(&mut test, &words, &link), Some(400));
    assert_eq!(bytes(&mut test, &[], &link), None, "another source has another value");
    assert_eq!(bytes(&mut test, &[], &link), None);
    assert_eq!(bytes(&mut test, &[("port_rcv_data", 110)], &link), Some(440));
    let mut test = HistoryTest::new();
    assert_eq!(bytes(&mut test, &[], &link), Some(390));
    assert_eq!(bytes(&mut test, &[], &[link[0], multicast]), Some(395), "more parts are better");
    assert_eq!(bytes(&mut test, &[], &link), None);
    assert_eq!(bytes(&mut test, &words, &link), Some(400), "a better source");
}

#[test]
fn only_a_32_bit_counter_that_was_nearly_full_has_wrapped_around() {
    const FULL: u64 = 1 << 32;
    for (wraps, before, base, raw, expected) in [
        (true, 5, 0, 5, (0, 0)),
        (true, 5, FULL, 7, (FULL, 2)),
        (true, FULL - 1, FULL, 0, (2 * FULL, 1)),
        (true, FULL / 2, 0, 0, (0, 0)), // half of its range at once is a reset
        (true, FULL / 2 + 1, 0, 0, (FULL, FULL / 2 - 1)),
        (true, FULL / 2 - 1, FULL, 0, (0, 0)),
        (true, FULL - 2, FULL, FULL - 3, (0, FULL - 3)),
        (true, FULL + 3, 0, 1, (0, 1)), // it has more than 32 bits
        (false, FULL - 1, 0, 0, (0, 0)),
        (false, FULL - 1, 0, 3, (0, 3)),
    ] {
        assert_eq!(unwrap_counter(wraps, before, base, raw), expected, "{wraps} {before} {base} {raw}");
    }
}

#[test]
fn a_level_falls_without_a_reset() {
    let mut test = HistoryTest::new();
    for level in [4_294_967_290, 3, 7] {
        assert_eq!(test.enter_with(None, &[("active_qps", level)], 0), level);
    }
    assert_eq!(test.resets(), 0);
}

#[test]
fn a_64_bit_counter_is_reset_and_does_not_wrap_around() {
    let mut test = HistoryTest::new();
    let sum = |test: &mut HistoryTest, words| bytes(test, &[("port_rcv_data", words)], &[]).unwrap();
    assert_eq!(sum(&mut test, 4_294_967_290), 4 * 4_294_967_290);
    assert_eq!((sum(&mut test, 4), test.resets()), (16, 1));
    assert_eq!(test.unattributed(), 16, "since the reset");
}

#[test]
fn accounts_on_a_renamed_device_end_unless_they_do_not_depend_on_its_reading() {
    let (mut test, a) = (HistoryTest::new(), pod("a", "1"));
    test.enter(alone(&a), 0, 0);
    let increments = CounterValues::of_port(&port(&[("x", 1)], &[], &[]), &mut test.layouts, None);
    for attribution in [Attribution::ExclusiveNetns, Attribution::Psn, Attribution::PidCounter] {
        test.history.add_to_account(a.clone(), ("mlx5_0".into(), 1, attribution), &increments);
    }
    test.history.add_to_account(a.clone(), ("mlx5_1".into(), 1, Attribution::SoleUser), &increments);
    let keys = |test: &HistoryTest| {
        test.history.accounts()[&a].keys().map(|(device, _, how)| (device.clone(), *how)).collect::<Vec<_>>()
    };
    test.history.forget_devices(|_| true);
    assert_eq!(keys(&test).len(), 5);
    test.history.forget_devices(|name| name == "mlx5_1");
    let kept = [
        ("mlx5_0", Attribution::PidCounter),
        ("mlx5_0", Attribution::Psn),
        ("mlx5_1", Attribution::SoleUser),
    ];
    assert_eq!(keys(&test), kept.map(|(device, how)| (device.to_owned(), how)));
}

#[test]
fn each_port_of_a_device_has_its_own_history() {
    let mut test = HistoryTest::new();
    let mut enter = |key, value| {
        test.port = key;
        test.enter(None, value, 0)
    };
    assert_eq!([enter((7, 1), 4_294_967_290), enter((7, 2), 9)], [4_294_967_290, 9]);
    assert_eq!([enter((7, 1), 3), enter((7, 2), 3)], [(1 << 32) + 3, 3]);
    assert_eq!([(7, 1), (7, 2), (8, 1)].map(|key| test.history.resets(key)), [Some(0), Some(1), None]);
}

#[test]
fn a_sum_that_became_better_meanwhile_does_not_return_to_its_former_source() {
    use Direction::Receive;
    let mut test = HistoryTest::new();
    let mut sums = |standard: &[(&str, u64)], link: &[(&str, u64)]| {
        let port = port(&[], standard, link);
        let mut values = CounterValues::of_port(&port, &mut test.layouts, test.history.layout(PORT));
        test.history.update_port(PORT, ("mlx5_0", "mlx5_0"), None, &mut values);
        [CommonMetric::Bytes(Receive), CommonMetric::Packets(Receive)].map(|role| values.sum(role))
    };
    let (bytes, packets) = (("port_rcv_data", 100), ("port_rcv_packets", 7));
    let link = [("rx_vport_rdma_unicast_bytes", 390), ("rx_vport_rdma_unicast_packets", 6)];
    assert_eq!(sums(&[bytes], &link[1..]), [Some(400), Some(6)]);
    assert_eq!(sums(&[], &link), [None, Some(6)]);
    assert_eq!(sums(&[bytes, packets], &[]), [Some(400), Some(7)]);
    assert_eq!(sums(&[], &link), [None, None]);
}
