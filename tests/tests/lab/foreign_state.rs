//! Journals that another user than root wrote, with the changes of attachments of VFs: none of them is reverted.

use serde_json::json;
use silkrail_tests::{
    foreign_journal::{assert_not_reverted, known_changes, of_tenant},
    infiniband::InfinibandMachine,
    machine::{LabMachine, pool},
    master_chain::{MasterChain, VLAN},
};
use testkit::Observe;

use crate::ib_sriov::{GUID, ib_sriov};

/// The file by which Multus reports the device of the victim's pod.
const DEVICE_INFO: &str = "/run/k8s.cni.cncf.io/devinfo/cni/victim";

const ARGS: &str = "IgnoreUnknown=1;K8S_POD_NAMESPACE=ai;K8S_POD_NAME=worker-0;K8S_POD_UID=1111-2222";

#[test]
fn no_change_of_a_vf_or_a_vlan_is_reverted_by_a_journal_of_another_user() {
    let machine = LabMachine::exclusive();
    let (node, state) = (&machine.node, machine.node.state_dir());
    let (before, pod, tenant) = (node.snapshot(), node.pod("a"), node.pod("tenant"));
    let conf = json!({
        "deviceID": machine.vf("eth0", 3).pci, "rdmaIsolation": true, "rail": true, "vlan": 7, "mac": "02:00:00:00:00:09",
        "ipam": {"type": "silkrail-ipam", "pools": [pool()]}, "runtimeConfig": {"CNIDeviceInfoFile": DEVICE_INFO},
    });
    let sriov = machine.plugin("sriov", &conf).pod(&pod).container("victim").args(ARGS);
    let other = node.pod("b");
    let rdma = machine.plugin("rdma", &json!({"deviceID": machine.vf("eth0", 4).pci}));
    let sriov_of_other = machine.plugin("sriov", &json!({"deviceID": machine.vf("eth0", 4).pci}));
    let [rdma, sriov_of_other] =
        [rdma, sriov_of_other].map(|call| call.pod(&other).container("other").args(ARGS));
    sriov.add().ok();
    let result = sriov_of_other.add().ok();
    rdma.with("prevResult", &result).add().ok();
    let del = of_tenant(sriov.clone()).pod(&tenant);
    let mut changes = assert_not_reverted(node, "sriov", "victim@net1", &del);
    // Those of the next test, and of `rdma`.
    for elsewhere in ["guids", "rdma.described"] {
        assert!(changes.insert(elsewhere.into()));
    }
    assert_eq!(changes, known_changes(&state, "sriov", &del, &["rdma"]), "a change without a case");
    let del = of_tenant(rdma.clone()).pod(&tenant);
    let changes = assert_not_reverted(node, "rdma", "other@net1", &del);
    assert_eq!(changes, known_changes(&state, "rdma", &del, &[]), "a change without a case");
    rdma.del().done();
    for call in [sriov_of_other, sriov] {
        call.del().done();
    }
    let chain = MasterChain::on_vlan(&machine, &pod, "victim");
    chain.add();
    assert!(node.link(VLAN).is_some());
    assert_not_reverted(node, "ifacer", "victim@net1", &of_tenant(chain.ifacer().clone()).pod(&tenant));
    chain.del();
    drop((pod, other, tenant));
    node.snapshot().assert_is(&before);
}

#[test]
fn no_change_of_an_infiniband_attachment_is_reverted_by_a_journal_of_another_user() {
    let machine = InfinibandMachine::exclusive();
    let node = &machine.machine.node;
    let (before, pod, tenant) = (node.snapshot(), node.pod("a"), node.pod("tenant"));
    let keys = json!({"runtimeConfig": {"infinibandGUID": GUID}, "rdmaIsolation": true});
    let ib_sriov = ib_sriov(&machine, &machine.vf(1), &pod, &keys).container("victim").args(ARGS);
    let ipoib = machine.plugin("ipoib", &json!({"master": machine.pf_link()})).pod(&pod).container("victim");
    let ipoib = ipoib.ifname("net2");
    let result = ib_sriov.add().ok();
    ipoib.add().ok();
    let del = of_tenant(ib_sriov.clone()).pod(&tenant);
    let changes = assert_not_reverted(node, "ib-sriov", "victim@net1", &del);
    assert!(changes.contains("guids"), "{changes:?}");
    assert_not_reverted(node, "ipoib", "victim@net2", &of_tenant(ipoib.clone()).pod(&tenant));
    ib_sriov.check_after(&result).done();
    ipoib.del().done();
    ib_sriov.del().done();
    drop((pod, tenant));
    node.snapshot().assert_is(&before);
}
