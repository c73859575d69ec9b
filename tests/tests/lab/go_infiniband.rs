//! Pods on InfiniBand that the Go plugins attached before the node was switched to Silkrail.

use std::fs;

use serde_json::{Value, json};
use testkit::{Call, FakeIpam, Observe, Share, TestPod};

use silkrail_tests::infiniband::{InfinibandMachine, InfinibandVf};

use crate::{
    go_ib_pod::{GoIbPod, GoIpoibPod},
    ib_sriov::{GUID, ib_sriov},
};

/// How a runtime calls DEL of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deletion {
    /// While the pod's namespace exists.
    Running,
    /// As before, without `CNI_NETNS`.
    WithoutPath,
    /// After the namespace was deleted, with its path.
    Ended,
    /// As before, without `CNI_NETNS`.
    EndedWithoutPath,
}

const ALL: [Deletion; 4] =
    [Deletion::Running, Deletion::WithoutPath, Deletion::Ended, Deletion::EndedWithoutPath];

impl Deletion {
    /// Calls DEL twice: immediately, and after the pod has ended.
    fn del(self, call: &Call, pod: TestPod) {
        let call = call.clone();
        let call = match self {
            Self::Running | Self::Ended => call,
            Self::WithoutPath | Self::EndedWithoutPath => call.without("CNI_NETNS"),
        };
        let pod = match self {
            Self::Running | Self::WithoutPath => Some(pod),
            Self::Ended | Self::EndedWithoutPath => {
                pod.end();
                None
            }
        };
        call.del().done();
        drop(pod);
        call.del().done();
    }
}

/// Every combination of what ib-sriov-cni changes.
fn keys() -> Vec<Value> {
    let mut all = Vec::new();
    for isolation in [false, true] {
        for guid in [None, Some(GUID)] {
            let link_state = guid.map(|_| "enable");
            all.push(json!({"rdmaIsolation": isolation, "guid": guid, "link_state": link_state}));
        }
    }
    all
}

/// What is on the node besides addresses that the kernel assigns: names, GUIDs and settings of the VF.
fn facts(machine: &InfinibandMachine) -> (String, String, Value) {
    let InfinibandVf { link, rdma, index, .. } = machine.vf(1);
    (link, rdma, machine.vf_info(index))
}

/// Returns how often the IPAM plugin was called with DEL, and forgets the calls.
fn calls(ipam: &FakeIpam) -> usize {
    let verbs = ipam.verbs();
    assert!(verbs.iter().all(|verb| verb == "DEL"), "{verbs:?}");
    fs::remove_dir_all(ipam.dir().join("data/calls")).unwrap();
    fs::create_dir(ipam.dir().join("data/calls")).unwrap();
    verbs.len()
}

#[test]
fn upgrade_ib_sriov_reverts_a_pod_of_the_go_plugin_however_del_is_called() {
    let machine = InfinibandMachine::exclusive();
    let (before, was) = (machine.machine.node.snapshot(), facts(&machine));
    let cases: Vec<_> =
        keys().into_iter().flat_map(|keys| ALL.map(|deletion| (keys.clone(), deletion))).collect();
    for index in Share::of_tests_of(&["plugins/main/ib-sriov"]).of_list("upgrade of ib-sriov", cases.len()) {
        let (keys, deletion) = &cases[index];
        let (pod, ipam) = (machine.machine.node.pod("a"), FakeIpam::install(&machine.machine.node, "fake"));
        let go = GoIbPod::attach(&machine, 1, &pod, keys);
        let call = go.call(&machine, &pod, &ipam);
        deletion.del(&call, pod);
        assert!(!go.file.exists(), "{deletion:?} {keys}");
        assert_eq!(calls(&ipam), 2, "{deletion:?} {keys}");
        assert_eq!(facts(&machine), was, "{deletion:?} {keys}");
        machine.machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn upgrade_ib_sriov_reverts_a_pod_of_the_go_plugin_with_the_stripped_configuration() {
    let machine = InfinibandMachine::exclusive();
    let (before, was) = (machine.machine.node.snapshot(), facts(&machine));
    let (pod, ipam) = (machine.machine.node.pod("a"), FakeIpam::install(&machine.machine.node, "fake"));
    let go = GoIbPod::attach(&machine, 1, &pod, &json!({"rdmaIsolation": true, "guid": GUID}));
    // Without deviceID and rdmaIsolation.
    let stripped = json!({
        "cniVersion": "1.0.0", "name": "rail0", "type": "ib-sriov", "dns": {}, "ipam": {"type": "fake"}
    });
    Deletion::Running.del(&go.call(&machine, &pod, &ipam).stdin(stripped.to_string()), pod);
    assert_eq!(calls(&ipam), 2);
    assert_eq!((go.file.exists(), facts(&machine)), (false, was));
    machine.machine.node.snapshot().assert_is(&before);
}

#[test]
fn upgrade_ib_sriov_does_not_change_the_vf_of_the_next_pod_in_a_late_del() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let ipam = FakeIpam::install(&machine.machine.node, "fake");
    let (first, second) = (machine.machine.node.pod("a"), machine.machine.node.pod("b"));
    let go = GoIbPod::attach(&machine, 1, &first, &json!({"rdmaIsolation": true, "guid": GUID}));
    let late = go.call(&machine, &first, &ipam);
    // The VF of a running pod is refused.
    let vf = InfinibandVf { index: 1, pci: go.vf.pci.clone(), link: String::new(), rdma: String::new() };
    let next = ib_sriov(&machine, &vf, &second, &json!({"rdmaIsolation": true}));
    next.add().refusal();
    assert!(go.file.exists());
    first.end();
    testkit::wait_until("the VF is on the host", || !machine.vf(1).link.is_empty());
    // The ADD restores the former GUID.
    let result = next.add().ok();
    assert_eq!(machine.vf_info(1)["port guid"], "02:00:00:00:00:00:00:02");
    let held = machine.machine.node.snapshot();
    late.del().done();
    go.write_file();
    late.del().done();
    assert!(!go.file.exists());
    machine.machine.node.snapshot().assert_is(&held);
    next.check_after(&result).done();
    next.del().done();
    drop(second);
    machine.machine.node.snapshot().assert_is(&before);
}

#[test]
fn upgrade_ipoib_deletes_a_link_of_the_go_plugin_however_del_is_called() {
    let machine = InfinibandMachine::shared();
    let before = machine.machine.node.snapshot();
    let cases = [Deletion::Running, Deletion::Ended, Deletion::EndedWithoutPath]
        .map(|deletion| [(deletion, false), (deletion, true)])
        .concat();
    for index in Share::of_tests_of(&["plugins/main/ipoib"]).of_list("upgrade of ipoib", cases.len()) {
        let (deletion, is_name_taken) = cases[index];
        if is_name_taken {
            // The kernel then returns the pod's link under another name.
            machine.machine.node.run_ip("link add net1 type dummy");
        }
        let unrelated = machine.machine.node.snapshot();
        let (pod, ipam) = (machine.machine.node.pod("a"), FakeIpam::install(&machine.machine.node, "fake"));
        let go = GoIpoibPod::attach(&machine, &pod);
        deletion.del(&go.call(&machine, &pod, &ipam), pod);
        assert_eq!(calls(&ipam), 2, "{deletion:?}");
        machine.machine.node.snapshot().assert_is(&unrelated);
        if is_name_taken {
            machine.machine.node.run_ip("link delete net1");
        }
        machine.machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn upgrade_ipoib_deletes_no_other_link_on_the_host() {
    let machine = InfinibandMachine::shared();
    let (pod, ipam) = (machine.machine.node.pod("a"), FakeIpam::install(&machine.machine.node, "fake"));
    let go = GoIpoibPod::attach(&machine, &pod);
    let (running, other) = (go.call(&machine, &pod, &ipam), machine.machine.node.pod("b"));
    running.del().done();
    // A link of the node has the pod's name, and another one's number of a queue pair.
    let parent = machine.pf_link();
    machine.machine.node.run_ip(&format!("link add link {parent} name net1 type ipoib pkey 0x8003"));
    let before = machine.machine.node.snapshot();
    let port = machine.machine.node.link(&parent).unwrap()["address"].clone();
    for address in [json!("c2:00:00:00:00:07"), json!("zz"), Value::Null, port] {
        let result = json!({"cniVersion": "1.0.0", "interfaces": [{"name": "net1", "mac": address, "sandbox": "/run/x"}]});
        running.with("prevResult", &result).del().done();
        machine.machine.node.snapshot().assert_is(&before);
    }
    machine.machine.node.run_ip("link delete net1");
    drop((pod, other));
}
