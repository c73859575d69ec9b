//! A snapshot shows every kind of change: of each, `ip` or the kernel's files make one.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::{Observe, TestNode, TestPod};

/// Returns a node with a veth pair, one end of which is in a pod, and a macvlan link.
fn place() -> (TestNode, TestPod) {
    let node = TestNode::new();
    let pod = node.pod("a");
    node.cable("rail0", &pod, "far0");
    node.run_ip("link add link rail0 name mac0 type macvlan mode bridge");
    pod.run_ip("address add 192.0.2.1/24 dev far0");
    (node, pod)
}

#[test]
fn what_ip_changes_is_shown() {
    let (node, _pod) = place();
    let changes: [(&str, &[&str]); 24] = [
        ("link set mac0 mtu 1400", &["- node: link mac0: mtu = 1500 ", "+ node: link mac0: mtu = 1400 "]),
        ("link set mac0 address 02:00:00:00:00:07", &["+ node: link mac0: address = 02:00:00:00:00:07"]),
        ("link set mac0 alias rail", &["+ node: link mac0: alias = rail"]),
        ("link property add dev mac0 altname enp1s0v1", &["+ node: link mac0: altnames 0 = enp1s0v1"]),
        ("link property add dev mac0 altname enp1s0v2", &["+ node: link mac0: altnames 1 = enp1s0v2"]),
        ("link set mac0 txqueuelen 77", &["+ node: link mac0: txqlen = 77 "]),
        ("link set mac0 group 9", &["+ node: link mac0: attribute 27 = 9 "]),
        ("link set mac0 type macvlan mode private", &["+ node: link mac0: info attribute 1 = 1 "]),
        ("link set mac0 addrgenmode none", &["+ node: link mac0: settings ipv6 addrgenmode = 01"]),
        ("link set mac0 promisc on", &["+ node: link mac0: promiscuity = 1 "]),
        ("link set mac0 gso_max_size 60000", &["+ node: link mac0: attribute 41 = 60000 "]),
        ("link set mac0 up", &["+ node: link mac0: header", "+ node: link mac0: operstate"]),
        ("link set mac0 name mac1", &["- node: link mac0: ", "+ node: link mac1: ", "+ sysfs: net mac1"]),
        ("link add red type bridge", &["+ node: link red: info kind = bridge"]),
        (
            "link set mac1 master red",
            &["+ node: link mac1: master = red", "+ node: link mac1: info port of = bridge"],
        ),
        ("address add 192.0.2.9/32 dev lo", &["+ node: addresses of lo: 192.0.2.9/32 label = lo"]),
        ("address add 2001:db8::9/128 dev lo nodad", &["+ node: addresses of lo: 2001:db8::9/128 "]),
        (
            "address change 192.0.2.9/32 dev lo metric 7",
            &["+ node: addresses of lo: 192.0.2.9/32 metric = 7 "],
        ),
        (
            "route add 198.51.100.0/24 dev rail0 table 77",
            &["+ node: route 198.51.100.0/24 rail0: ", "table = 77 "],
        ),
        (
            "route change 198.51.100.0/24 dev rail0 table 77 mtu 1300",
            &["+ node: route 198.51.100.0/24 rail0: metrics"],
        ),
        (
            "-6 route add 2001:db8:1::/64 dev rail0 metric 5",
            &["+ node: route 2001:db8:1::/64 rail0: ", "metric = 5 "],
        ),
        (
            "route add 203.0.113.0/24 nexthop dev rail0 weight 1 nexthop dev lo weight 2",
            &["+ node: route 203.0.113.0/24 rail0 lo: next hop lo "],
        ),
        ("rule add from 192.0.2.9 table 77 priority 500", &["+ node: rule 500: from = ", "(192.0.2.9)"]),
        (
            "-6 rule add from 2001:db8::9 table 77 priority 501",
            &["+ node: rule 501: from = ", "(2001:db8::9)"],
        ),
    ];
    for (command, words) in changes {
        let before = node.snapshot();
        node.snapshot().assert_is(&before);
        node.run_ip(command);
        let difference = node.snapshot().difference(&before);
        let shown = words.iter().all(|word| difference.contains(word));
        assert!(shown, "{command}: {words:?}: {difference}");
    }
}

#[test]
fn the_order_of_addresses_in_a_pod_is_shown() {
    let (node, pod) = place();
    let snapshot = |first: &str, second: &str| {
        pod.run_ip("address flush dev far0 scope global");
        for address in [first, second] {
            pod.run_ip(&format!("address add {address}/24 dev far0"));
        }
        node.snapshot()
    };
    let before = snapshot("192.0.2.1", "192.0.2.2");
    snapshot("192.0.2.1", "192.0.2.2").assert_is(&before);
    let difference = snapshot("192.0.2.2", "192.0.2.1").difference(&before);
    assert!(difference.contains("+ pod a: addresses of far0: 192.0.2.2/24 "), "{difference}");
}

#[test]
fn every_sysctl_of_a_link_is_shown() {
    let (node, _pod) = place();
    let (mut before, mut changed, mut missed) = (node.snapshot(), 0, Vec::new());
    for sysctl in ["ipv4", "ipv6"].into_iter().flat_map(|family| sysctls(family, "rail0")) {
        if change(&sysctl).is_none() {
            continue;
        }
        let after = node.snapshot();
        if !after.difference(&before).contains("+ node: ") {
            missed.push(sysctl);
        }
        (before, changed) = (after, changed + 1);
    }
    assert!(changed > 80, "only {changed} sysctls could be changed");
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn every_sysctl_of_all_links_and_of_new_ones_is_shown() {
    let (node, pod) = place();
    for (family, of) in [("ipv4", "all"), ("ipv4", "default"), ("ipv6", "all"), ("ipv6", "default")] {
        let before = node.snapshot();
        let changed: Vec<_> = pod.within(|| {
            let sysctls = sysctls(family, of).into_iter();
            sysctls.filter_map(|sysctl| Some((change(&sysctl)?, sysctl))).collect()
        });
        assert!(changed.len() > 25, "only {changed:?} of {family} {of} could be changed");
        let difference = node.snapshot().difference(&before);
        for (_, sysctl) in changed {
            let name = sysctl.strip_prefix("/proc/sys/net").unwrap().display();
            assert!(difference.contains(&format!("+ pod a: sysctl {name}: ")), "{name}: {difference}");
        }
    }
}

/// Changes a sysctl, and returns its value, unless every value is refused.
fn change(sysctl: &Path) -> Option<String> {
    let values = ["1", "0", "2", "7", "30", "300", "2001:db8::7"];
    let before = fs::read_to_string(sysctl).unwrap_or_default();
    values.into_iter().find_map(|value| {
        fs::write(sysctl, value).ok()?;
        let after = fs::read_to_string(sysctl).ok()?;
        (after != before).then_some(after)
    })
}

fn sysctls(family: &str, of: &str) -> Vec<PathBuf> {
    let listed = fs::read_dir(format!("/proc/sys/net/{family}/conf/{of}")).unwrap();
    listed.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_timers_of_a_bridge_are_not_compared() {
    let node = TestNode::new();
    node.run_ip("link add br0 type bridge");
    node.run_ip("link add a0 type veth peer name a1");
    for link in ["a0", "a1", "br0"] {
        node.run_ip(&format!("link set {link} up"));
    }
    node.run_ip("link set a0 master br0");
    let before = node.snapshot();
    node.run_ip("link set a0 type bridge_slave cost 9");
    let difference = node.snapshot().difference(&before);
    assert!(difference.contains("+ node: link a0: info port attribute 3 = "), "{difference}");
}

#[test]
fn state_files_are_compared_with_their_content() {
    let node = TestNode::new();
    let file = node.state_dir().join("file");
    fs::write(&file, "one").unwrap();
    let before = node.snapshot();
    fs::write(&file, "two").unwrap();
    assert_eq!(node.snapshot().difference(&before), "- state/file: one\n+ state/file: two\n");
}
