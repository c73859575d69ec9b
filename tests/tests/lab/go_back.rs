//! Pods that Silkrail attached before the node was switched back to the Go plugins. The DEL of sriov-cni, rdma-cni and
//! ib-sriov-cni succeeds without their state file and changes nothing; Debian has no package of them.

use serde_json::json;
use silkrail_tests::{
    chain::Chain,
    cli::silkrail,
    machine::{LabMachine, rdma_devices},
};
use testkit::{Observe, wait_until};

use silkrail_tests::infiniband::InfinibandMachine;

use crate::{
    go_ib_pod::GoIbPod,
    go_pod::GoPod,
    ib_sriov::{GUID, ib_sriov},
};

fn gc(machine: &LabMachine) -> String {
    silkrail(&format!("gc --yes --state-dir {}", machine.node.state_dir().display())).ended(0).stdout
}

#[test]
fn way_back_gc_does_not_change_a_vf_that_sriov_cni_has_attached_since() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, first, second) = (machine.vf("eth0", 1), machine.node.pod("a"), machine.node.pod("b"));
    Chain::new(&machine, &vf, &first, json!({"vlan": 321})).add();
    first.end();
    wait_until("the VF is on the host", || !machine.vf("eth0", 1).link.is_empty());
    wait_until("its RDMA device too", || !machine.vf("eth0", 1).rdma.is_empty());
    // The device plugin allocates the VF to the next pod.
    let returned = machine.vf("eth0", 1);
    let go = GoPod::attach(&machine, &returned, &second, &json!({"vlan": 7}));
    let info = machine.vf_info(&vf);
    gc(&machine);
    assert!(second.link("net1").is_some(), "the link is in the pod");
    assert_eq!(rdma_devices(&second), std::slice::from_ref(&returned.rdma));
    assert_eq!(machine.vf_info(&vf), info);
    go.del();
    drop(second);
    // The Go plugins restore what was there before their ADD.
    machine.node.run_ip("link set eth0 vf 1 vlan 0");
    if machine.vf("eth0", 1).link != vf.link {
        machine.node.run_ip(&format!("link set {} down name {}", machine.vf("eth0", 1).link, vf.link));
    }
    let difference = machine.node.snapshot().difference(&before);
    assert!(machine.node.snapshot().state().is_empty(), "{difference}");
}

#[test]
fn way_back_gc_does_not_change_a_vf_that_ib_sriov_cni_has_attached_since() {
    let machine = InfinibandMachine::exclusive();
    let node = &machine.machine.node;
    let (vf, first, second) = (machine.vf(1), node.pod("a"), node.pod("b"));
    let runtime = json!({"runtimeConfig": {"infinibandGUID": GUID}, "rdmaIsolation": true});
    ib_sriov(&machine, &vf, &first, &runtime).add().ok();
    first.end();
    wait_until("the VF is on the host", || !machine.vf(1).link.is_empty() && !machine.vf(1).rdma.is_empty());
    let keys = json!({"guid": "02:00:00:00:00:00:00:55", "rdmaIsolation": true});
    let go = GoIbPod::attach(&machine, 1, &second, &keys);
    let info = machine.vf_info(1);
    gc(&machine.machine);
    assert!(second.link("net1").is_some(), "the link is in the pod");
    assert_eq!(rdma_devices(&second).len(), 1);
    assert_eq!(machine.vf_info(1), info);
    assert!(node.snapshot().state().is_empty());
    let ipam = testkit::FakeIpam::install(node, "fake");
    go.call(&machine, &second, &ipam).del().done();
}

#[test]
fn way_back_gc_reverts_pods_on_infiniband_that_ended_without_a_del_of_silkrail() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let (vf, first, second) = (machine.vf(1), machine.machine.node.pod("a"), machine.machine.node.pod("b"));
    let runtime = json!({"runtimeConfig": {"infinibandGUID": GUID}, "rdmaIsolation": true});
    ib_sriov(&machine, &vf, &first, &runtime).add().ok();
    let ipoib = machine.plugin("ipoib", &json!({"master": machine.pf_link()})).pod(&second);
    ipoib.container("second").add().ok();
    drop((first, second));
    gc(&machine.machine);
    machine.machine.node.snapshot().assert_is(&before);
    assert_eq!(machine.vf(1).link, vf.link);
}
