//! `sriov`: the addresses of a VF in the pod.

use serde_json::json;
use testkit::Observe;

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
