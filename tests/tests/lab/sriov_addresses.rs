//! `sriov`: the addresses of a VF in the pod.

use serde_json::json;
use testkit::{Observe, wait_until};

use silkrail_tests::machine::{LabMachine, pool};

use crate::sriov::call;

#[test]
fn without_addresses_a_version_whose_results_need_them_is_refused_before_any_change() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 4), machine.node.pod("a"));
    let before = machine.node.snapshot();
    for version in ["0.1.0", "0.2.0"] {
        let call = call(&machine, &vf, &pod, json!({"cniVersion": version, "vlan": 5}));
        call.add().error(1).says(&["no valid IP addresses"]);
        machine.node.snapshot().assert_is(&before);
        let ipam = json!({"type": "silkrail-ipam", "pools": [pool()]});
        call.with("ipam", &ipam).add().ok();
        call.with("ipam", &ipam).del().done();
    }
    drop(pod);
}

#[test]
fn an_ipv6_address_of_a_vf_is_optimistic() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 3), machine.node.pod("a"));
    let call = call(&machine, &vf, &pod, json!({}));
    call.add().ok();
    assert_eq!(pod.sysctl("net/ipv6/conf/net1/optimistic_dad"), "1");
    call.del().done();
    assert_eq!(machine.node.sysctl(&format!("net/ipv6/conf/{}/optimistic_dad", vf.link)), "0");
}

#[test]
fn an_address_that_another_host_has_is_not_assigned_to_a_vf() {
    let machine = LabMachine::exclusive();
    let (vf, other) = (machine.vf("eth0", 0), machine.vf("eth1", 0));
    let (pod, neighbour) = (machine.node.pod("a"), machine.node.pod("b"));
    let there = call(&machine, &other, &neighbour, json!({})).container("there");
    let mac = there.add().ok()["interfaces"][0]["mac"].as_str().unwrap().to_owned();
    neighbour.run_ip("address add 10.9.0.2/24 dev net1");
    wait_until("the neighbour has a carrier", || neighbour.link("net1").unwrap()["operstate"] == "UP");
    let pool = json!({"name": "p", "subnet": "10.9.0.0/24", "ips": ["10.9.0.2-10.9.0.9"]});
    let ipam = json!({"type": "silkrail-ipam", "pools": [pool]});
    let probing = call(&machine, &vf, &pod, json!({"detectIPConflict": true, "ipam": ipam}));
    let before = machine.node.snapshot();
    probing.add().error(11).says(&["address 10.9.0.2 of net1 is in use by another host", &mac]);
    machine.node.snapshot().assert_is(&before);
    assert_eq!(probing.add().ok()["ips"][0]["address"], "10.9.0.3/24");
    probing.del().done();
    there.del().done();
}
