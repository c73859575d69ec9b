//! Interface names that are in use.

use serde_json::json;
use testkit::Observe;

use silkrail_tests::rail::RailNode;

#[test]
fn case_048_a_name_that_is_taken_is_refused_and_its_link_untouched() {
    let rail = RailNode::new();
    rail.pod.run_ip("link add net1 type veth peer name other");
    rail.pod.run_ip("address add 10.9.0.1/24 dev net1");
    let before = rail.node.snapshot();
    let refusal = rail.macvlan(&json!({})).add().error(102);
    refusal.says(&["interface net1 already exists", "veth"]);
    // Neither namespace has a temporary link, and no claim remains.
    rail.node.snapshot().assert_is(&before);
    rail.macvlan(&json!({})).del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn an_alternative_name_that_is_taken_is_refused_too() {
    let rail = RailNode::new();
    rail.pod.run_ip("link add other type veth peer name another");
    rail.pod.run_ip("link property add dev other altname net1");
    let before = rail.node.snapshot();
    rail.macvlan(&json!({})).add().refusal();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn the_node_may_have_a_link_of_the_same_name() {
    let rail = RailNode::new();
    rail.node.run_ip("link add net1 type veth peer name net1-far");
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    assert_eq!(rail.pod.link("net1").unwrap()["linkinfo"]["info_kind"], "macvlan");
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn del_finds_the_link_under_the_name_the_pod_gave_it() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    rail.pod.run_ip("link set net1 down");
    rail.pod.run_ip("link set net1 name renamed");
    rail.pod.run_ip("link add net1 type veth peer name other");
    call.del().done();
    assert_eq!(rail.pod.link("renamed"), None);
    assert!(rail.pod.link("net1").is_some(), "another link that took the name is not deleted");
    rail.pod.run_ip("link delete net1");
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn one_pod_has_several_attachments() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let calls: Vec<_> = (1..=4).map(|n| rail.macvlan(&json!({})).ifname(&format!("net{n}"))).collect();
    let clean = json!({"type": "silkrail-ipam", "clean_gateway": true, "pools": [silkrail_tests::rail::pool("rail", &["10.7.0.10-10.7.0.20"])]});
    for call in &calls {
        call.with("ipam", &clean).add().ok();
    }
    let mut addresses: Vec<_> = (1..=4).flat_map(|n| rail.pod.addresses(&format!("net{n}"))).collect();
    addresses.dedup();
    assert_eq!(addresses.len(), 4);
    calls[1].del().done();
    let left = rail.pod.link_names();
    assert!(left.contains(&"net1".into()) && !left.contains(&"net2".into()), "{left:?}");
    assert_eq!(rail.node.snapshot().claims().len(), 3);
    calls.iter().for_each(|call| call.del().done());
    rail.node.snapshot().assert_is(&before);
}
