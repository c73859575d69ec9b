//! Requests to real links, compared with the output of the `ethtool` program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use ethtool::{Error, EthtoolSocket};
use identifiers::LinkName;
use testkit::{Observe, TestNode, wait_until};

/// A node with a veth pair whose links are up.
fn node() -> (TestNode, EthtoolSocket, LinkName) {
    let node = TestNode::new();
    node.run_ip("link add v0 numrxqueues 4 numtxqueues 4 type veth peer name v1 numrxqueues 4 numtxqueues 4");
    node.run_ip("link set v1 up");
    node.run_ip("link set v0 up");
    wait_until("v0 has a carrier", || node.link("v0").unwrap()["operstate"] == "UP");
    (node, EthtoolSocket::open().unwrap(), link("v0"))
}

fn link(name: &str) -> LinkName {
    name.parse().unwrap()
}

/// Parses the output of `ethtool -S`. Its lines look like `     peer_ifindex: 3`.
fn shown(node: &TestNode, link: &str) -> Vec<(String, u64)> {
    let text = node.run("ethtool", &["-S", link]);
    let lines = text.lines().filter_map(|line| line.trim().rsplit_once(": "));
    lines.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

fn value(statistics: &[(String, u64)], name: &str) -> u64 {
    statistics.iter().find(|(key, _)| key == name).unwrap().1
}

#[test]
fn statistics_are_those_that_ethtool_shows() {
    let (node, socket, v0) = node();
    // Stops all traffic, which would change the counters between the two readings.
    node.run_ip("link set v0 down");
    let statistics = socket.statistics(&v0).unwrap();
    assert_eq!(statistics, shown(&node, "v0"));
    assert!(statistics.len() > 1, "{statistics:?}");
    let peer = node.link("v1").unwrap()["ifindex"].as_u64().unwrap();
    assert_eq!(value(&statistics, "peer_ifindex"), peer);
}

#[test]
fn names_remain_valid_until_the_set_changes() {
    let (node, socket, v0) = node();
    node.run("ethtool", &["-L", "v0", "rx", "1", "tx", "1"]);
    let names = socket.names(&v0).unwrap();
    assert_eq!(socket.values(&v0, &names).unwrap().unwrap().len(), names.as_slice().len());

    node.run("ethtool", &["-L", "v0", "rx", "4", "tx", "4"]);
    assert_eq!(socket.values(&v0, &names), Ok(None), "more");
    let more = socket.names(&v0).unwrap();
    assert!(more.as_slice().len() > names.as_slice().len());
    assert!(socket.values(&v0, &more).unwrap().is_some());

    node.run("ethtool", &["-L", "v0", "rx", "1", "tx", "1"]);
    assert_eq!(socket.values(&v0, &more), Ok(None), "fewer");
    assert!(socket.values(&v0, &names).unwrap().is_some(), "the former ones");

    let none = socket.names(&link("lo")).unwrap();
    assert_eq!(socket.values(&v0, &none), Ok(None), "some instead of none");
}

#[test]
fn a_driver_without_statistics_has_none() {
    let (node, socket, _) = node();
    node.run_ip("link add link v0 name m0 type macvlan");
    for name in ["lo", "m0"] {
        assert_eq!(socket.statistics(&link(name)), Ok(Vec::new()), "{name}");
        let names = socket.names(&link(name)).unwrap();
        assert!(names.as_slice().is_empty(), "{name}");
        assert_eq!(socket.values(&link(name), &names), Ok(Some(Vec::new())), "{name}");
    }
}

#[test]
fn the_speed_is_the_one_that_ethtool_shows() {
    let (node, socket, v0) = node();
    assert_eq!(socket.speed(&v0), Ok(Some(10_000)));
    assert!(node.run("ethtool", &["v0"]).contains("Speed: 10000Mb/s"));
    node.run_ip("link add link v0 name m0 type macvlan");
    node.run_ip("link set m0 up");
    assert_eq!(socket.speed(&link("m0")), Ok(Some(10_000)), "its parent's");
}

#[test]
fn a_link_that_is_down_and_loopback_have_no_speed() {
    let (node, socket, v0) = node();
    assert_eq!(socket.speed(&link("lo")), Ok(None), "lo");
    node.run_ip("link set v1 down");
    wait_until("v0 has no carrier", || node.link("v0").unwrap()["operstate"] != "UP");
    assert_eq!(socket.speed(&v0), Ok(None), "without a carrier");
    node.run_ip("link set v0 down");
    assert_eq!(socket.speed(&v0), Ok(None), "switched off");
}

#[test]
fn a_deleted_link_is_not_found() {
    let (node, socket, v0) = node();
    let names = socket.names(&v0).unwrap();
    node.run_ip("link del v0");
    let gone = Error::NoSuchLink { link: v0.clone() };
    assert_eq!(socket.speed(&v0), Err(gone.clone()));
    assert_eq!(socket.statistics(&v0), Err(gone.clone()));
    assert_eq!(socket.names(&v0), Err(gone.clone()));
    assert_eq!(socket.values(&v0, &names), Err(gone.clone()));
    assert_eq!(gone.to_string(), "link v0: not found in this network namespace");
}

#[test]
fn a_socket_belongs_to_the_namespace_it_was_opened_in() {
    let (node, socket, v0) = node();
    let pod = node.pod("a");
    node.run_ip(&format!("link set v1 netns {}", pod.path().display()));
    let pods = netns::NetNs::open(pod.path()).unwrap().run(EthtoolSocket::open).unwrap().unwrap();
    assert!(pods.statistics(&link("v1")).is_ok_and(|statistics| !statistics.is_empty()));
    assert_eq!(pods.statistics(&v0), Err(Error::NoSuchLink { link: v0.clone() }));
    assert_eq!(socket.speed(&link("v1")), Err(Error::NoSuchLink { link: link("v1") }));
}
