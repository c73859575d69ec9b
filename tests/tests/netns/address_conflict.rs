//! `detectIPConflict`: an address that another host has is not assigned.

use serde_json::json;
use testkit::Observe;

use silkrail_tests::rail::{RailNode, ip, ipam};

#[test]
fn ipam_case_097_an_address_that_another_host_has_is_refused_and_the_next_one_is_assigned() {
    let rail = RailNode::new();
    // The pod has another network. Its address is not the sender of probes, else others would send to the wrong link.
    rail.pod.run_ip("link set lo up");
    rail.pod.run_ip("address add 10.9.9.9/32 dev lo");
    rail.switch.run_ip("address add 10.7.0.10/24 dev port0");
    rail.switch.set_sysctl("net/ipv4/conf/port0/arp_accept", "1");
    let mac = rail.switch.ip("link show port0")[0]["address"].as_str().unwrap().to_owned();
    let call = rail.macvlan(&json!({"detectIPConflict": true}));
    let before = rail.node.snapshot();
    call.add().error(11).says(&["address 10.7.0.10 of net1 is in use by another host", &mac]);
    rail.node.snapshot().assert_is(&before);
    assert!(rail.switch.ip("neighbour show 10.9.9.9 dev port0").is_empty());
    // The runtime tries again.
    let result = call.add().ok();
    assert_eq!(ip(&result), "10.7.0.11");
    // The address is announced as without the key.
    let neighbour = &rail.switch.ip("neighbour show 10.7.0.11 dev port0")[0];
    assert_eq!(neighbour["lladdr"], result["interfaces"][0]["mac"]);
    call.del().done();
    rail.node.snapshot().assert_is(&before);
    // Without the key, it is not noticed.
    let requested = rail.macvlan(&json!({"runtimeConfig": {"ips": ["10.7.0.10"]}}));
    assert_eq!(ip(&requested.add().ok()), "10.7.0.10");
}

#[test]
fn ipam_case_098_a_pool_of_which_others_have_all_addresses_is_not_probed_for_ever() {
    let rail = RailNode::new();
    for last in 10..13 {
        rail.switch.run_ip(&format!("address add 10.7.0.{last}/24 dev port0"));
    }
    let call = rail.macvlan(&json!({"detectIPConflict": true, "ipam": ipam(&["10.7.0.10-10.7.0.12"])}));
    for _ in 0..4 {
        call.add().error(11).says(&["is in use by another host"]);
    }
}

#[test]
fn an_ipv6_address_that_another_host_has_is_refused() {
    let rail = RailNode::new();
    rail.switch.run_ip("address add fd00:7::10/64 dev port0 nodad");
    let pool = json!({"name": "six", "subnet": "fd00:7::/64", "ips": ["fd00:7::10-fd00:7::1f"]});
    let call =
        rail.macvlan(&json!({"detectIPConflict": true, "ipam": {"type": "silkrail-ipam", "pools": [pool]}}));
    call.add().refusal().says(&["fd00:7::10", "in use by another host"]);
    assert_eq!(ip(&call.add().ok()), "fd00:7::11");
}

#[test]
fn a_plugin_that_cannot_probe_refuses_the_key() {
    let rail = RailNode::new();
    for plugin in ["ipvlan", "ipoib"] {
        let conf = json!({
            "cniVersion": "1.1.0", "name": "rail", "type": plugin, "master": "rail0", "detectIPConflict": true,
            "ipam": ipam(&["10.7.0.10-10.7.0.12"]),
        });
        rail.node
            .plugin(plugin)
            .conf(&conf)
            .pod(&rail.pod)
            .add()
            .error(2)
            .says(&["not supported by", plugin]);
    }
}
