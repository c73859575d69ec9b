//! The manifests of cluster pools and networks, with pods of a real Kubernetes: `hack/test cluster`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use serde_json::{Value, json};
use silkrail_tests::{
    conf,
    control_plane::wait_until,
    kubernetes::{Kubernetes, pod},
};

/// Applies the components as this node needs them: there is no registry, the kubelet has other paths, and without kube-proxy
/// only the network of the node reaches the API server.
fn deploy(kubernetes: &Kubernetes) {
    kubernetes.api.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "silkrail"}}));
    for file in [
        "silkraild-ipam/spiderippools",
        "silkraild-ipam/ipblocks",
        "silkraild-ipam/rbac",
        "silkraild-ipam-pods/ipreservations",
        "silkraild-ipam-pods/rbac",
        "silkraild-networks/spidermultusconfigs",
        "silkraild-networks/rbac",
    ] {
        kubernetes.apply_file(&format!("{file}.yaml"));
    }
    kubernetes.api.wait_for_definitions();
    let agent = kubernetes.merged(
        &conf::object("silkraild-ipam/daemonset.yaml", "DaemonSet"),
        &conf::object("silkraild-ipam-pods/daemonset.yaml", "DaemonSet"),
    );
    let deployment = |file: &str| conf::object(file, "Deployment");
    let controllers =
        ["silkraild-ipam/controller.yaml", "silkraild-networks/deployment.yaml"].map(deployment);
    for mut object in std::iter::once(agent).chain(controllers) {
        adapt(&mut object["spec"]["template"]["spec"]);
        kubernetes.api.apply(&object);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        kubernetes.wait_for_rollout(&text(&object["kind"]), &text(&object["metadata"]["name"]));
    }
}

fn adapt(pod: &mut Value) {
    pod["hostNetwork"] = true.into();
    let container = &mut pod["containers"][0];
    container["imagePullPolicy"] = "Never".into();
    let server = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "6443")];
    let server = server.map(|(name, value)| json!({"name": name, "value": value}));
    let variables = container["env"].as_array().cloned().unwrap_or_default();
    container["env"] = [&variables[..], &server].concat().into();
    for volume in pod["volumes"].as_array_mut().unwrap() {
        // kubectl reads it as an octal number.
        if let Some(mode) = volume["projected"]["defaultMode"].as_str() {
            volume["projected"]["defaultMode"] = u32::from_str_radix(mode, 8).unwrap().into();
        }
        let path = match volume["name"].as_str().unwrap() {
            "kubelet-conf" => "/run/kube/kubelet.conf",
            "kubelet-pki" => "/run/kube/keys",
            _ => continue,
        };
        volume["hostPath"]["path"] = path.into();
    }
}

fn pool(name: &str, third: u8, block_size: &str) -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
        "metadata": {"name": name, "annotations": {"ipam.silkrail.io/block-size": block_size}},
        "spec": {"subnet": "10.16.0.0/16", "ips": [format!("10.16.{third}.2-10.16.{third}.250")]},
    })
}

fn network() -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig", "metadata": {"name": "rail0"},
        "spec": {
            "cniType": "macvlan", "enableCoordinator": false,
            "macvlan": {"master": ["kube0"], "ippools": {"ipv4": ["rail0"]}},
        },
    })
}

fn stateful_set() -> Value {
    let annotations = json!({
        "k8s.v1.cni.cncf.io/networks": "rail0", "ipam.spidernet.io/ippool": json!({"ipv4": ["sticky"]}).to_string(),
    });
    let template = pod("web", &annotations, &json!({}), &json!({}));
    let metadata = json!({"labels": {"app": "web"}, "annotations": annotations});
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": metadata, "spec": template["spec"]},
        },
    })
}

/// Returns the address of the second interface of a pod.
fn address(kubernetes: &Kubernetes, pod: &str) -> String {
    let text = kubernetes.exec(pod, "ip -4 address show net1");
    text.split_whitespace().skip_while(|word| *word != "inet").nth(1).unwrap().to_owned()
}

#[test]
fn pods_of_a_real_kubelet_get_addresses_of_the_pools_of_the_cluster() {
    let kubernetes = Kubernetes::here();
    deploy(&kubernetes);
    kubernetes.api.apply(&pool("rail0", 1, "16"));
    kubernetes.api.apply(&pool("sticky", 2, "1"));
    kubernetes.api.apply(&network());
    let api = &kubernetes.api;
    let owners = || -> Vec<Value> {
        let blocks = api.list("ipblocks").into_iter().map(|block| block["spec"]["owner"]["nodeName"].clone());
        blocks.filter(Value::is_string).collect()
    };
    let has_network = || api.get("network-attachment-definitions", "default", "rail0").is_some();
    wait_until("the network is created", has_network);
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": "rail0"});
    api.apply(&pod("plain", &annotations, &json!({}), &json!({})));
    api.apply(&stateful_set());
    kubernetes.wait_for_pods(2);
    assert!(address(&kubernetes, "plain").starts_with("10.16.1."));
    let first = address(&kubernetes, "web-0");
    assert!(first.starts_with("10.16.2."), "{first}");
    let blocks = owners();
    assert!(blocks.len() >= 2 && blocks.iter().all(|node| node == "node1"), "{blocks:?}");
    wait_until("the pool shows its use", || {
        kubernetes.get("spiderippools", "rail0")["status"]["allocatedIPCount"] == 1
    });

    // The StatefulSet creates its pod again.
    let uid = || api.get("pods", "default", "web-0").map(|pod| pod["metadata"]["uid"].clone());
    let before = uid();
    api.delete("pods", "default", "web-0");
    wait_until("the pod is created again", || uid().is_some_and(|uid| Some(uid) != before));
    kubernetes.wait_for_pods(2);
    assert_eq!(address(&kubernetes, "web-0"), first);

    // Everything is gone with what it belongs to.
    api.delete("statefulsets", "default", "web");
    wait_until("the reservation is deleted", || api.list("ipreservations").is_empty());
    kubernetes.delete_pods();
    api.delete("spidermultusconfigs", "default", "rail0");
    wait_until("the network is deleted", || !has_network());
    api.delete_all("spiderippools", "");
    wait_until("the blocks are released", || owners().is_empty());
}
