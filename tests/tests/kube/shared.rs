//! Pods share the RDMA device of a PF.

use std::fs;

use serde_json::{Value, json};
use silkrail_tests::{
    daemon::Daemon,
    kubernetes::{Kubernetes, pod, without_rdma_cm},
    machine::LabMachine,
};
use testkit::Observe;

const RESOURCE: &str = "rdma/hca";

fn network() -> Value {
    let pool = json!({"name": "shared", "subnet": "172.82.0.0/16", "ips": ["172.82.0.10-172.82.0.200"]});
    let plugin =
        json!({"type": "macvlan", "master": "eth1", "ipam": {"type": "silkrail-ipam", "pools": [pool]}});
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "shared"},
        "spec": {"config": json!({"cniVersion": "1.0.0", "name": "shared", "plugins": [plugin]}).to_string()},
    })
}

#[test]
fn a_hundred_containers_can_share_a_pf_and_see_its_nodes_only() {
    let (kubernetes, machine) = (Kubernetes::here(), LabMachine::shared());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("resources.json");
    let resource = json!({"resourceName": "hca", "rdmaHcaMax": 100, "selectors": {"ifNames": ["eth1"]}});
    fs::write(&file, json!({"configList": [resource]}).to_string()).unwrap();
    let options = ["--device-plugin", file.to_str().unwrap(), "--kubernetes", "off"];
    let _daemon = Daemon::start(&options);
    kubernetes.wait_for_resource(RESOURCE, 100, 100);
    kubernetes.api.apply(&network());
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": "shared"});
    for name in ["one", "two"] {
        kubernetes.api.apply(&pod(name, &annotations, &json!({RESOURCE: 1}), &json!({})));
    }
    kubernetes.wait_for_pods(2);
    let uverbs = machine.node.run("sh", &["-c", "ls /sys/class/net/eth1/device/infiniband_verbs"]);
    let mut indexes = Vec::new();
    for name in ["one", "two"] {
        let nodes = kubernetes.exec(name, "ls /dev/infiniband");
        assert_eq!(without_rdma_cm(&nodes), [uverbs.trim()]);
        let told: Value =
            serde_json::from_str(&kubernetes.exec(name, "cat /run/silkrail/pod/rdma.json")).unwrap();
        let device = &told["devices"][0];
        let is = [&told["pod"]["name"], &device["mode"], &device["interface"]];
        assert_eq!(is, [name, "shared", "net1"], "{told}");
        assert_eq!(device["charDevices"], json!([format!("/dev/infiniband/{}", uverbs.trim())]));
        indexes.push(device["gids"][0]["index"].as_u64().unwrap());
    }
    assert_ne!(indexes[0], indexes[1], "both pods are told the same GID");
    kubernetes.delete_pods();
}
