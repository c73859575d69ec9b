//! A chain of sriov and rdma as a delegate of Multus.

use std::fs;

use serde_json::{Value, json};
use testkit::Observe;

use silkrail_tests::{
    machine::{LabMachine, LabVf, pool, rdma_devices},
    multus::{DelInput, Delegate, MultusPod, state_files},
};

const DEVICE_INFO: &str = "/var/run/k8s.cni.cncf.io/devinfo/cni/rail-sandbox_net1";

/// A cluster network without a plugin of Silkrail would be first: the chain is the second delegate.
fn delegates(vf: &LabVf, plugins: &Value) -> Vec<Delegate> {
    let cluster = json!({"type": "macvlan", "master": "eth1", "ipam": {}});
    let delegate = |name: &str, ifname, plugins: Value, device| Delegate {
        network: json!({"cniVersion": "1.0.0", "name": name, "plugins": plugins}),
        ifname,
        device,
        runtime: json!({"CNIDeviceInfoFile": DEVICE_INFO, "deviceID": vf.pci}),
    };
    vec![
        delegate("cluster", "eth0", json!([cluster]), None),
        delegate("rail", "net1", plugins.clone(), Some(vf.pci.clone())),
    ]
}

fn attach_and_detach(plugins: &Value) {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 3);
    let before = machine.node.snapshot();
    for input in [DelInput::Whole, DelInput::Stripped] {
        let pod = machine.node.pod("a");
        let multus = MultusPod { node: &machine.node, pod: &pod, delegates: delegates(&vf, plugins) };
        let results = multus.add(input).unwrap();
        assert_eq!(json!(pod.addresses("net1")), json!([results[1]["ips"][0]["address"]]));
        assert_eq!(rdma_devices(&pod).join(" "), vf.rdma);
        let written: Value = serde_json::from_str(&fs::read_to_string(DEVICE_INFO).unwrap()).unwrap();
        let pf = fs::read_link("/sys/class/net/eth0/device").unwrap();
        let pci = json!({
            "pci-address": vf.pci, "pf-pci-address": pf.file_name().unwrap().to_str(), "rdma-device": vf.rdma,
        });
        assert_eq!(written, json!({"type": "pci", "version": "1.1.0", "pci": pci}));
        assert!(multus.del(input).is_empty());
        assert!(!fs::exists(DEVICE_INFO).unwrap());
        drop(pod);
        machine.node.snapshot().assert_is(&before);
        assert!(state_files().is_empty(), "{input:?}: {:?}", state_files());
    }
}

fn sriov(more: &Value) -> Value {
    let mut sriov = json!({
        "type": "sriov", "rail": true, "capabilities": {"CNIDeviceInfoFile": true},
        "ipam": {"type": "silkrail-ipam", "pools": [pool()]},
    });
    sriov.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    sriov
}

#[test]
fn case_128_a_chain_of_sriov_and_rdma_is_deleted_also_with_the_stripped_configuration() {
    attach_and_detach(&json!([sriov(&json!({})), {"type": "rdma"}]));
}

#[test]
fn case_128_sriov_with_isolation_is_deleted_also_with_the_stripped_configuration() {
    attach_and_detach(&json!([sriov(&json!({"rdmaIsolation": true}))]));
}

#[test]
fn a_device_information_file_elsewhere_is_refused() {
    let machine = LabMachine::exclusive();
    let (vf, pod, before) = (machine.vf("eth0", 3), machine.node.pod("a"), machine.node.snapshot());
    let directory = "/var/run/k8s.cni.cncf.io/devinfo/cni";
    for path in
        ["/etc/passwd", "relative", directory, &format!("{directory}/../dp/x"), &format!("{directory}/sub/x")]
    {
        let conf = json!({"deviceID": vf.pci, "runtimeConfig": {"CNIDeviceInfoFile": path}});
        let refusal = machine.plugin("sriov", &conf).pod(&pod).add().error(7);
        refusal.says(&["runtimeConfig.CNIDeviceInfoFile", path]);
    }
    machine.node.snapshot().assert_is(&before);
}
