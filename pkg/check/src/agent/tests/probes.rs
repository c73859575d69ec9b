//! A prober on a simulated node, and the agents of others.

use super::{
    ports::{bandwidth, command_lines, simulated},
    *,
};
use crate::{
    RdmaOperation, TestKind, TestSpec,
    probe::{FailureReason, ProbeRecord, Prober, ProberOptions},
};

/// An address that nothing listens on.
const DEAD: &str = "127.0.0.1:1";

/// Returns a prober of these agents from these devices.
fn prober<'a>(node: &'a LocalContext, peers: &[(&str, SocketAddr)], devices: &[&str]) -> Prober<'a> {
    let test = TestSpec {
        kind: TestKind::Latency,
        operation: RdmaOperation::Write,
        messages: "1000".parse().ok(),
        ..bandwidth()
    };
    let options = ProberOptions {
        peers: peers.iter().map(|(name, address)| ((*name).to_owned(), *address)).collect(),
        test,
        devices: devices.iter().map(|device| device.parse().unwrap()).collect(),
        token: None,
    };
    Prober { node, options, record: ProbeRecord::default() }
}

/// Returns each probed device with its numbers of probes, of messages and of those that were lost.
fn probed(record: &ProbeRecord) -> Vec<(&str, u64, u64, u64)> {
    let numbers = |(pair, rail): (&'_ crate::probe::ProbedPair, &crate::probe::RailRecord)| {
        (rail.probes, rail.round_trips.count(), rail.lost, pair.device == pair.peer_device)
    };
    let of = record.rails.iter().map(|(pair, rail)| (pair.device.as_str(), numbers((pair, rail))));
    of.map(|(device, (probes, messages, lost, is_same))| {
        assert!(is_same, "the rail of {device}");
        (device, probes, messages, lost)
    })
    .collect()
}

fn not_made(record: &ProbeRecord) -> Vec<(&str, FailureReason, u64)> {
    record.not_made.iter().map(|((peer, reason), count)| (peer.as_str(), *reason, *count)).collect()
}

#[test]
fn each_rail_of_each_node_is_probed_although_others_cannot_be() {
    let simulated = simulated(3);
    let (served, node) = (simulated.context(), simulated.context());
    serving_on(&served, settings(), |address| {
        let mut prober =
            prober(&node, &[(DEAD, DEAD.parse().unwrap()), ("b", address)], &["mlx5_0", "mlx5_2"]);
        let mut reported = Vec::new();
        let busy = port_in_use(&served, "mlx5_0");
        let round =
            prober.round(&mut |outcome| reported.push((outcome.peer.to_owned(), outcome.round_trip.clone())));
        assert!(!round.unwrap());
        assert_eq!(
            not_made(&prober.record),
            [(DEAD, FailureReason::Agent, 1), ("b", FailureReason::Busy, 1)]
        );
        // Two messages, one of which took 80 ms; perftest prints half of a round trip.
        assert_eq!(probed(&prober.record), [("mlx5_2", 1, 2, 1)]);
        let peers: Vec<_> =
            reported.iter().map(|(peer, round_trip)| (peer.as_str(), round_trip.is_ok())).collect();
        assert_eq!(peers, [(DEAD, false), ("b", false), ("b", true)]);
        assert_eq!(reported[2].1, Ok((0.08, 0.08)));
        drop(busy);
        let _busy = port_in_use(&served, "mlx5_2");
        prober.round(&mut |_| ()).unwrap();
        assert_eq!(probed(&prober.record), [("mlx5_0", 1, 2, 1), ("mlx5_2", 1, 2, 1)]);
        assert_eq!(not_made(&prober.record)[1], ("b", FailureReason::Busy, 2), "after a probe that was made");
    });
}

#[test]
fn a_node_that_has_another_address_since_is_probed_in_the_next_round() {
    let simulated = simulated(1);
    let (served, node) = (simulated.context(), simulated.context());
    serving_on(&served, settings(), |address| {
        let name = address.to_string();
        let mut prober = prober(&node, &[(&name, DEAD.parse().unwrap())], &[]);
        for expected in [vec![], vec![("mlx5_0", 1, 2, 1)]] {
            assert!(!prober.round(&mut |_| ()).unwrap());
            assert_eq!(probed(&prober.record), expected);
        }
        assert_eq!(not_made(&prober.record), [(&*name, FailureReason::Agent, 1)]);
    });
    // Only the client prints the time of each message, and no test precedes that of the number of messages.
    let lines = command_lines(&simulated, "ib_write_lat");
    let with = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
    assert_eq!((lines.len(), with("--iters=1000"), with(" -U ")), (2, 2, 1), "{lines:?}");
}

#[test]
fn a_missing_rail_a_failure_and_a_test_that_does_not_start_are_told_apart() {
    let simulated = simulated(1);
    let (served, node) = (simulated.context(), simulated.context());
    serving_on(&served, settings(), |address| {
        let mut none = prober(&node, &[("b", address)], &["mlx5_7"]);
        none.round(&mut |_| ()).unwrap();
        assert_eq!(not_made(&none.record), [("b", FailureReason::NoRail, 1)]);
        std::fs::write(simulated.path("bin/ib_write_lat.fail"), "").unwrap();
        let mut failing = prober(&node, &[("b", address)], &[]);
        failing.round(&mut |_| ()).unwrap();
        let failures: Vec<_> =
            failing.record.rails.values().map(|rail| (rail.failures, rail.probes)).collect();
        assert_eq!((failures, failing.record.not_made.len()), (vec![(1, 0)], 0));
        std::fs::remove_file(simulated.path("bin/ib_write_lat")).unwrap();
        let mut missing = prober(&node, &[("b", address)], &[]);
        missing.round(&mut |_| ()).unwrap();
        assert_eq!(not_made(&missing.record), [("b", FailureReason::NotStarted, 1)]);
        assert!(missing.record.rails.is_empty(), "a program that is missing is no failure of the fabric");
        node.interrupt.request();
        assert!(missing.round(&mut |_| ()).unwrap(), "it was asked to exit");
    });
}

/// Reserves the port of a device.
fn port_in_use<'a>(node: &'a LocalContext, device: &str) -> crate::port_reservation::ReservedPort<'a> {
    let wanted = PortSelector { device: device.parse().ok(), ..PortSelector::default() };
    let ports = node.candidate_ports(&wanted).unwrap();
    let selected = crate::port_selection::select(&ports, &wanted, None, None).unwrap();
    node.reserve(&selected).unwrap()
}
