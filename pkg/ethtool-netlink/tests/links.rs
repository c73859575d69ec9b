//! Requests to real links, compared with the output of the `ethtool` program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use ethtool_netlink::{Duplex, Error, Handle, LinkState};
use identifiers::LinkName;
use testkit::{Observe, TestNode, wait_until};

/// A node with a veth pair whose links are up.
fn node() -> (TestNode, Handle, LinkName) {
    let node = TestNode::new();
    node.run_ip("link add v0 type veth peer name v1");
    node.run_ip("link set v1 up");
    node.run_ip("link set v0 up");
    wait_until("v0 has a carrier", || node.link("v0").unwrap()["operstate"] == "UP");
    (node, Handle::open().unwrap(), link("v0"))
}

fn link(name: &str) -> LinkName {
    name.parse().unwrap()
}

/// Returns what `ethtool LINK` shows after a key, such as `10000Mb/s` for `Speed`.
fn shown(node: &TestNode, link: &str, key: &str) -> String {
    let text = node.run("ethtool", &[link]);
    let value = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "));
    value.unwrap_or_else(|| panic!("{key} is not in {text}")).to_owned()
}

#[test]
fn link_modes_are_those_that_ethtool_shows() {
    let (node, handle, v0) = node();
    let modes = handle.link_modes(&v0).unwrap().unwrap();
    assert_eq!(shown(&node, "v0", "Speed"), format!("{}Mb/s", modes.speed.unwrap()));
    assert_eq!((shown(&node, "v0", "Duplex"), modes.duplex), ("Full".into(), Some(Duplex::Full)));
    assert_eq!((shown(&node, "v0", "Auto-negotiation"), modes.autonegotiation), ("off".into(), false));
    assert_eq!((modes.lanes, modes.highest_supported_speed), (None, None));
    assert!(modes.supported.is_empty() && modes.advertised.is_empty() && modes.peer.is_empty());
    assert!(!modes.is_below_highest_speed());
}

#[test]
fn a_speed_that_is_changed_is_read() {
    let (node, handle, _) = node();
    node.run_ip("tuntap add tap0 mode tap");
    node.run("ethtool", &["-s", "tap0", "speed", "100", "duplex", "half", "autoneg", "off"]);
    let modes = handle.link_modes(&link("tap0")).unwrap().unwrap();
    assert_eq!((modes.speed, modes.duplex), (Some(100), Some(Duplex::Half)));
    assert_eq!(shown(&node, "tap0", "Speed"), "100Mb/s");
}

#[test]
fn the_link_state_is_the_one_that_ethtool_shows() {
    let (node, handle, v0) = node();
    let state = |up| LinkState { up: Some(up), sqi: None, sqi_max: None, extended: None, down_events: None };
    assert_eq!(shown(&node, "v0", "Link detected"), "yes");
    assert_eq!(handle.link_state(&v0).unwrap(), Some(state(true)));
    node.run_ip("link set v1 down");
    wait_until("v0 has no carrier", || node.link("v0").unwrap()["operstate"] != "UP");
    assert_eq!(shown(&node, "v0", "Link detected"), "no");
    assert_eq!(handle.link_state(&v0).unwrap(), Some(state(false)));
}

#[test]
fn a_driver_that_does_not_support_a_request_has_none() {
    let (node, handle, v0) = node();
    assert_eq!(handle.fec(&v0).unwrap(), None);
    assert_eq!(handle.module(&v0).unwrap(), None);
    assert_eq!(handle.pause(&v0).unwrap(), None);
    assert_eq!(handle.statistics(&v0).unwrap(), None);
    assert_eq!(handle.link_modes(&link("lo")).unwrap(), None, "lo has no speed");
    let groups = node.run("ethtool", &["--json", "-S", "v0", "--all-groups"]);
    let groups: serde_json::Value = serde_json::from_str(&groups).unwrap();
    for group in ["eth-phy", "eth-mac", "rmon"] {
        assert_eq!(groups[0][group], serde_json::json!({}), "{group}");
    }
}

#[test]
fn a_link_that_does_not_exist_is_reported_by_each_request() {
    let (_node, handle, _) = node();
    let none = link("none");
    let errors = [
        handle.link_modes(&none).unwrap_err(),
        handle.link_state(&none).unwrap_err(),
        handle.fec(&none).unwrap_err(),
        handle.pause(&none).unwrap_err(),
        handle.statistics(&none).unwrap_err(),
        handle.module(&none).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(&error, Error::NoSuchLink { link } if *link == none), "{error}");
        assert_eq!(error.to_string(), "link none: not found in this network namespace");
    }
}

#[test]
fn a_handle_stays_in_its_namespace() {
    let (node, handle, v0) = node();
    let pod = node.pod("a");
    node.cable("rail0", &pod, "far0");
    assert!(handle.link_state(&v0).unwrap().is_some());
    assert!(matches!(handle.link_state(&link("far0")), Err(Error::NoSuchLink { .. })));
}
