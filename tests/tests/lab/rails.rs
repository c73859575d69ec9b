//! Pods with several VFs each as rails of one subnet.

use serde_json::{Value, json};
use testkit::Call;

use silkrail_tests::{
    machine::LabMachine,
    rail_traffic::{Layout, RailPods},
};

/// Few, as processes are slow in the emulator: `tests/tests/netns/rails.rs` has eight rails, of macvlan.
const RAILS: usize = 3;

/// Returns the calls of sriov for both pods: the VFs of one PF each.
fn calls(machine: &LabMachine, pods: &RailPods) -> Vec<Call> {
    let each = ["eth0", "eth1"]
        .into_iter()
        .enumerate()
        .flat_map(|(pod, pf)| (0..RAILS).map(move |vf| (pod, pf, vf)));
    let call = |(pod, pf, index): (usize, &'static str, usize)| {
        let addresses = pods.layout.addresses(pod + 1, index + 1);
        let pool = |(name, address, subnet): (&str, &String, &str)| json!({"name": name, "subnet": subnet, "ips": [address.split('/').next().unwrap()]});
        let pools = [("v4", &addresses[0], "10.80.0.0/16"), ("v6", &addresses[1], "fd80::/64")].map(pool);
        let conf = json!({
            "deviceID": machine.vf(pf, index).pci, "rail": true, "rdmaIsolation": true,
            "ipam": {"type": "silkrail-ipam", "pools": pools},
        });
        let call = machine.plugin("sriov", &conf).pod(&pods.pods[pod]);
        call.container(&format!("pod{pod}")).ifname(&format!("net{}", index + 1))
    };
    each.map(call).collect()
}

#[test]
fn vfs_in_one_subnet_each_use_their_own_link() {
    let machine = LabMachine::exclusive();
    let pods = ["a", "b"].map(|name| machine.node.pod(name));
    let pods = RailPods { pods, layout: Layout::OneSubnet, rails: RAILS };
    let before = machine.node.snapshot();
    let calls = calls(&machine, &pods);
    let results: Vec<Value> = calls.iter().map(|call| call.add().ok()).collect();
    pods.each_source_uses_its_own_rail();
    for (call, result) in calls.iter().zip(&results) {
        call.check_after(result).done();
    }
    for call in calls.iter().rev() {
        call.del().done();
    }
    machine.node.snapshot().assert_is(&before);
}
