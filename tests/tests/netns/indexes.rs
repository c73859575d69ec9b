//! The interface indexes of links in a pod. Software sorts links by index.

use std::{fs, thread};

use serde_json::{Value, json};
use testkit::{Call, FakeIpam, Observe, wait_until};

use silkrail_tests::{
    cluster::ClusterNetwork,
    rail::{RailNode, ipam},
};

fn index(place: &impl Observe, name: &str) -> u64 {
    place.link(name).unwrap_or_else(|| panic!("{name} does not exist"))["ifindex"].as_u64().unwrap()
}

/// The names of the pod's links, by index.
fn order(rail: &RailNode) -> Vec<String> {
    let mut links = rail.pod.links();
    links.sort_by_key(|link| link["ifindex"].as_u64());
    links.iter().map(|link| link["ifname"].as_str().unwrap().to_owned()).collect()
}

/// One call per network of a pod, each with the name of its link.
fn networks(rail: &RailNode, names: &[&str]) -> Vec<Call> {
    names.iter().map(|name| rail.layer_2(&json!({})).ifname(name)).collect()
}

#[test]
fn a_new_link_has_a_higher_index_than_the_links_of_the_pod() {
    let rail = RailNode::new();
    let far = rail.node.pod("far");
    let _cluster = ClusterNetwork::of(&rail.pod, &far);
    for call in networks(&rail, &["net1", "net2", "a-third"]) {
        call.add().ok();
    }
    assert_eq!(order(&rail), ["lo", "eth0", "net1", "net2", "a-third"]);
    assert!(index(&rail.pod, "a-third") < 100_000, "small");
}

#[test]
fn links_have_indexes_in_the_order_of_their_adds() {
    let rail = RailNode::new();
    for call in networks(&rail, &["eth0", "net1", "net2"]) {
        call.add().ok();
    }
    assert_eq!(order(&rail), ["lo", "eth0", "net1", "net2"]);
}

#[test]
fn a_new_link_has_a_higher_index_than_a_link_with_a_large_index() {
    let rail = RailNode::new();
    rail.pod.run_ip("link add eth0 index 123456 type bridge");
    rail.layer_2(&json!({})).add().ok();
    assert_eq!(order(&rail), ["lo", "eth0", "net1"]);
    // No index is above the maximum.
    rail.pod.run_ip("link add last index 2147483647 type bridge");
    rail.layer_2(&json!({})).ifname("net2").add().ok();
    assert!(order(&rail).contains(&"net2".to_owned()));
}

#[test]
fn a_link_that_is_created_again_has_its_former_index() {
    let rail = RailNode::new();
    rail.pod.run_ip("link add eth0 type bridge");
    let call = rail.layer_2(&json!({}));
    let mut indexes = Vec::new();
    for _ in 0..3 {
        call.add().ok();
        indexes.push(index(&rail.pod, "net1"));
        call.del().done();
    }
    assert!(indexes.iter().all(|index| *index == indexes[0]), "{indexes:?}");
}

#[test]
fn indexes_of_host_links_do_not_conflict() {
    let rail = RailNode::new();
    // Uses every small index on the host.
    let last = index(&rail.node, "rail0");
    for number in 2..last + 30 {
        let add = format!("link add other{number} index {number} type bridge");
        let _ = rail.node.command("ip").args(add.split(' ')).output().unwrap();
    }
    let before = rail.node.snapshot();
    let call = rail.layer_2(&json!({}));
    call.add().ok();
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn an_index_that_another_link_takes_meanwhile_is_not_used() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    rail.layer_2(&json!({})).add().ok();
    let expected = index(&rail.pod, "net1");
    rail.layer_2(&json!({})).del().done();
    let fake = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    fake.block();
    let call = rail.with_ipam(&fake);
    let result = thread::scope(|scope| {
        let add = scope.spawn(|| call.add());
        wait_until("the IPAM plugin is called", || fake.was_called());
        rail.pod.run_ip(&format!("link add concurrent index {expected} type bridge"));
        fake.unblock();
        add.join().unwrap().ok()
    });
    assert_eq!(order(&rail), ["lo", "concurrent", "net1"]);
    call.check_after(&result).done();
    call.del().done();
    assert_eq!(order(&rail), ["lo", "concurrent"], "a link of another program is not deleted");
    rail.pod.run_ip("link delete concurrent");
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn concurrent_adds_in_one_pod_create_and_delete_their_own_links() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let names: Vec<String> = (0..8).map(|number| format!("net{number}")).collect();
    let calls: Vec<Call> = names
        .iter()
        .map(|name| rail.macvlan(&json!({"ipam": ipam(&["10.7.0.10-10.7.0.59"])})).ifname(name))
        .collect();
    thread::scope(|scope| {
        let adds: Vec<_> = calls.iter().map(|call| scope.spawn(|| call.add())).collect();
        adds.into_iter().for_each(|add| drop(add.join().unwrap().ok()));
    });
    for (call, name) in calls.iter().zip(&names) {
        assert!(rail.pod.link(name).is_some());
        call.del().done();
        assert!(rail.pod.link(name).is_none());
    }
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_3_a_del_does_not_delete_a_link_with_the_recorded_index_of_one_that_was_never_created() {
    let rail = RailNode::new();
    let (one, two) = (rail.layer_2(&json!({})), rail.layer_2(&json!({})).ifname("net2"));
    // Killed after it recorded the index, before it created the link.
    let created = |answer: &testkit::Answer| answer.status.success() || rail.pod.link("net1").is_some();
    let mut recorded = false;
    for step in 1..20 {
        let answer = one.clone().fault(&format!("kill:{step}")).add();
        if created(&answer) {
            break;
        }
        recorded |= read_journal(&rail, "net1").contains("\"index\"");
        if recorded {
            break;
        }
        one.del().done();
    }
    assert!(recorded && rail.pod.link("net1").is_none());
    two.add().ok();
    let journal = read_journal(&rail, "net1");
    assert!(journal.contains(&format!("\"index\":{}", index(&rail.pod, "net2"))), "{journal}");
    one.del().done();
    assert!(rail.pod.link("net2").is_some(), "a link of another attachment was deleted");
    two.del().done();
}

#[test]
fn invariant_3_a_del_does_not_delete_a_link_that_has_taken_the_index() {
    let rail = RailNode::new();
    rail.pod.run_ip("link add eth0 type veth peer name eth1");
    rail.pod.run_ip("link set eth0 up");
    let call = rail.layer_2(&json!({}));
    call.add().ok();
    let former = index(&rail.pod, "net1");
    // A pod with CAP_NET_ADMIN can do so.
    rail.pod.run_ip("link delete net1");
    rail.pod.run_ip(&format!("link add link eth0 name own index {former} type macvlan mode bridge"));
    call.del().done();
    assert!(rail.pod.link("own").is_some(), "the pod's own link was deleted");
}

#[test]
fn a_link_is_found_if_the_pod_changed_its_mac_and_its_name() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({}));
    let (mac, name) = ("link set net1 address 02:00:00:00:00:07", "link set net1 name renamed");
    // KubeVirt does the last when it unplugs an interface of a virtual machine (kubevirt#14074).
    for changes in [&[mac][..], &[name], &[mac, name]] {
        call.add().ok();
        rail.pod.run_ip("link set net1 down");
        changes.iter().for_each(|change| rail.pod.run_ip(change));
        call.del().done();
        rail.node.snapshot().assert_is(&before);
        assert_eq!(order(&rail), ["lo"], "{changes:?}");
    }
}

/// The second link gets the index of the first, which the pod deleted: both attachments recorded it.
#[test]
fn a_link_that_two_attachments_recorded_and_the_pod_changed_is_deleted_with_the_first_of_them() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let (one, two) = (rail.macvlan(&json!({})), rail.macvlan(&json!({})).ifname("net2"));
    one.add().ok();
    let former = index(&rail.pod, "net1");
    rail.pod.run_ip("link delete net1");
    two.add().ok();
    assert_eq!(index(&rail.pod, "net2"), former);
    rail.pod.run_ip("link set net2 down name renamed address 02:00:00:00:00:07");
    one.del().done();
    assert_eq!(order(&rail), ["lo"]);
    two.del().done();
    rail.node.snapshot().assert_is(&before);
}

/// The pod, or a privileged process of it, moves its link to a namespace that no attachment has.
#[test]
fn a_link_that_the_pod_moved_to_another_namespace_is_deleted() {
    let rail = RailNode::new().with_every_process();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let hidden = rail.node.pod("hidden");
    rail.pod.run_ip(&format!("link set net1 netns {}", hidden.path().display()));
    hidden.run_ip("link set net1 name renamed");
    call.del().done();
    assert_eq!(hidden.link("renamed"), None);
    drop(hidden);
    rail.node.snapshot().assert_is(&before);
}

/// The kernel gives it another index if that is in use (`__dev_change_net_namespace` in net/core/dev.c).
#[test]
fn a_link_that_the_pod_moved_out_and_back_is_deleted_under_its_other_index() {
    let rail = RailNode::new().with_every_process();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let former = index(&rail.pod, "net1");
    let hidden = rail.node.pod("hidden");
    rail.pod.run_ip(&format!("link set net1 netns {}", hidden.path().display()));
    rail.pod.run_ip(&format!("link add decoy index {former} type bridge"));
    hidden.run_ip("link set net1 name renamed");
    hidden.run_ip(&format!("link set renamed netns {}", rail.pod.path().display()));
    assert_ne!(index(&rail.pod, "renamed"), former);
    call.del().done();
    assert_eq!(order(&rail), ["lo", "decoy"]);
    drop(hidden);
    rail.pod.run_ip("link delete decoy");
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_link_that_the_pod_moved_to_another_namespace_is_deleted_although_the_pod_has_ended() {
    let rail = RailNode::new().with_every_process();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let hidden = rail.node.pod("hidden");
    rail.pod.run_ip(&format!("link set net1 netns {}", hidden.path().display()));
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    call.del().done();
    assert_eq!(hidden.link("net1"), None);
    assert!(node.snapshot().state().is_empty());
}

/// As the path `/proc/<pid>/ns/net` of a container whose first process has ended, while another one runs.
#[test]
fn a_link_is_deleted_in_a_running_namespace_whose_path_is_missing() {
    let rail = RailNode::new().with_every_process();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let path = rail.pod.path().to_owned();
    let again = rail.node.pod_of(&rail.pod, "again");
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    assert!(!path.exists() && again.link("net1").is_some());
    call.del().done();
    assert_eq!(again.link("net1"), None);
    assert!(node.snapshot().state().is_empty());
}

fn read_journal(rail: &RailNode, ifname: &str) -> String {
    let path = rail.node.state_dir().join(format!("attachments/c0ffee@{ifname}.macvlan.journal"));
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_generated_mac_address_is_unicast_and_locally_administered() {
    let rail = RailNode::new();
    let call = rail.layer_2(&json!({}));
    let mut seen = Vec::new();
    for _ in 0..4 {
        let result: Value = call.add().ok();
        let mac = result["interfaces"][0]["mac"].as_str().unwrap().to_owned();
        assert_eq!(rail.pod.link("net1").unwrap()["address"], mac.as_str());
        assert_eq!(u8::from_str_radix(&mac[..2], 16).unwrap() & 3, 2, "{mac}");
        assert!(!seen.contains(&mac), "{mac} was generated twice");
        seen.push(mac);
        call.del().done();
    }
}
