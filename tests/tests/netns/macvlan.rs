//! macvlan: attach, detach, announce.

use serde_json::json;
use testkit::{Observe, wait_until};

use silkrail_tests::rail::{RailNode, VERSIONS, ip};

#[test]
fn case_035_add_and_del_in_every_version() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for version in VERSIONS {
        let call = rail.macvlan(&json!({"cniVersion": version}));
        let result = call.add().ok();
        assert_eq!(result["cniVersion"], version);
        let link = rail.pod.link("net1").unwrap();
        assert_eq!(link["linkinfo"]["info_kind"], "macvlan");
        assert_eq!(link["operstate"], "UP");
        let addresses = rail.pod.addresses("net1");
        if version < "0.3.0" {
            assert_eq!(result["ip4"]["ip"], addresses[0]);
        } else {
            assert_eq!(result["ips"][0]["address"], addresses[0]);
            assert_eq!(result["interfaces"][0]["name"], "net1");
            assert_eq!(result["interfaces"][0]["mac"], link["address"]);
            assert_eq!(result["interfaces"][0]["sandbox"], rail.pod.path().to_str().unwrap());
        }
        assert_eq!(addresses.len(), 1);
        call.del().done();
        rail.node.snapshot().assert_is(&before);
        call.del().done();
    }
}

#[test]
fn case_036_without_ipam_the_link_is_up_and_has_no_address() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for version in VERSIONS {
        for ipam in [json!({}), json!(null), json!({"type": ""})] {
            let call = rail.layer_2(&json!({"cniVersion": version, "ipam": ipam}));
            if version < "0.3.0" {
                assert_eq!(call.add().error(1).msg, "cannot convert: no valid IP addresses");
            } else {
                let result = call.add().ok();
                assert_eq!(result.get("ips"), None);
                assert_eq!(rail.pod.link("net1").unwrap()["operstate"], "UP");
                assert!(rail.pod.addresses("net1").is_empty());
                call.del().done();
            }
            rail.node.snapshot().assert_is(&before);
        }
    }
}

#[test]
fn the_gateways_of_a_pool_become_routes_of_the_pod() {
    let rail = RailNode::new();
    rail.macvlan(&json!({})).add().ok();
    let routes = rail.pod.routes("net1");
    assert_eq!((&routes[0]["dst"], &routes[0]["gateway"]), (&json!("default"), &json!("10.7.0.1")));
}

#[test]
fn two_pods_on_one_rail_reach_each_other() {
    let rail = RailNode::new();
    let other = rail.node.pod("b");
    let first = ip(&rail.macvlan(&json!({})).add().ok());
    rail.macvlan(&json!({})).pod(&other).container("b").add().ok();
    // Address resolution needs a broadcast request and a reply.
    other.run("bash", &["-c", &format!("echo >/dev/udp/{first}/9")]);
    let resolved = || {
        let neighbours = other.ip("neighbour show dev net1");
        neighbours.iter().any(|neighbour| neighbour["dst"] == *first && neighbour.get("lladdr").is_some())
    };
    wait_until("the other pod's address is resolved", resolved);
}

#[test]
fn case_049_addresses_are_announced_when_the_link_comes_up() {
    let rail = RailNode::new();
    rail.macvlan(&json!({})).add().ok();
    assert_eq!(rail.pod.sysctl("net/ipv4/conf/net1/arp_notify"), "1");
    assert_eq!(rail.pod.sysctl("net/ipv6/conf/net1/ndisc_notify"), "1");
}

#[test]
fn case_050_the_switch_learns_the_address_from_an_announcement() {
    let rail = RailNode::new();
    // With arp_accept, a host adds a neighbour from a gratuitous ARP.
    rail.switch.set_sysctl("net/ipv4/conf/port0/arp_accept", "1");
    rail.switch.run_ip("address add 10.7.0.1/24 dev port0");
    let result = rail.macvlan(&json!({})).add().ok();
    let (ip, mac) = (ip(&result), result["interfaces"][0]["mac"].clone());
    let announced = || {
        let neighbours = rail.switch.ip("neighbour show dev port0");
        neighbours.iter().any(|neighbour| neighbour["dst"] == *ip && neighbour["lladdr"] == mac)
    };
    wait_until("the switch has received the announcement", announced);
}
