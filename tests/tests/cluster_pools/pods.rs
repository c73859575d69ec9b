//! Annotations and labels of pods and namespaces select pools.

use std::fs;

use serde_json::{Value, json};
use silkrail_tests::{
    control_plane::{ControlPlane, wait_until},
    pool_node::PoolNode,
};
use testkit::{Answer, Call};

use crate::pool;

/// Creates a namespace with these labels and annotations.
pub(crate) fn namespace(plane: &ControlPlane, name: &str, labels: &Value, annotations: &Value) {
    let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
    plane.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name},
    }));
}

fn pod(plane: &ControlPlane, name: &str, more: &Value) -> String {
    pod_on(plane, "node-a", name, more)
}

/// Creates a pod of a node, and returns its UID.
pub(crate) fn pod_on(plane: &ControlPlane, node: &str, name: &str, more: &Value) -> String {
    let (namespace, name) = name.split_once('/').unwrap();
    let mut metadata = json!({"namespace": namespace, "name": name});
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "example.com/none"}],
        },
    }));
    let created = plane.api().get("pods", namespace, name).unwrap();
    created["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Deletes a pod for which there is no kubelet.
pub(crate) fn delete(plane: &ControlPlane, name: &str) {
    let (namespace, name) = name.split_once('/').unwrap();
    plane.api().remove_at_once("pods", &json!({"metadata": {"namespace": namespace, "name": name}}));
}

/// Returns the call of a runtime for a pod.
pub(crate) fn call(node: &PoolNode, name: &str, uid: &str) -> Call {
    let (namespace, pod) = name.split_once('/').unwrap();
    let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={pod};K8S_POD_UID={uid}");
    node.call(uid, &["plain"]).ifname("net1").args(&args)
}

/// Returns the pool from which an ADD assigns its address: the third number of the address.
fn pool_number(answer: &Answer) -> String {
    let result = answer.ok();
    result["ips"][0]["address"].as_str().unwrap().split('.').nth(2).unwrap().to_owned()
}

fn annotated(key: &str, value: &Value) -> Value {
    json!({"annotations": {format!("ipam.spidernet.io/{key}"): value.to_string()}})
}

#[test]
fn annotations_and_labels_of_a_pod_select_its_pools() {
    let plane = ControlPlane::shared();
    for (number, name, more) in [
        (1, "plain", json!({})),
        (2, "of-namespace", json!({})),
        (3, "of-pod", json!({})),
        (
            4,
            "of-interface",
            json!({"gateway": "10.16.4.1", "routes": [{"dst": "10.99.0.0/16", "gw": "10.16.4.1"}]}),
        ),
        (5, "of-label", json!({"podAffinity": {"matchLabels": {"app": "train"}}})),
        (6, "of-tenant", json!({"namespaceAffinity": {"matchLabels": {"tenant": "b"}}})),
    ] {
        let mut pool = pool(name, &format!("10.16.{number}.2-10.16.{number}.250"), "16");
        pool["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        plane.apply(&pool);
    }
    let of_namespace = json!({"ipam.spidernet.io/default-ipv4-ippool": "[\"of-namespace\"]"});
    namespace(&plane, "ai", &json!({}), &of_namespace);
    namespace(&plane, "b", &json!({"tenant": "b"}), &json!({}));
    let node = PoolNode::start_watching_pods(&plane, "node-a");
    let add = |name: &str, more: &Value| call(&node, name, &pod(&plane, name, more)).add();

    // The precedence of the lists: interfaces of the pod, the pod, the namespace, the network.
    let interfaces = json!([
        {"interface": "net1", "ipv4": ["of-interface"], "cleangateway": true},
        {"interface": "net2", "ipv4": ["plain"]},
    ]);
    let both = json!({"annotations": {
        "ipam.spidernet.io/ippools": interfaces.to_string(), "ipam.spidernet.io/ippool": "{\"ipv4\": [\"of-pod\"]}",
        "ipam.spidernet.io/routes": "[{\"dst\": \"10.98.0.0/16\", \"gw\": \"10.16.4.9\"}, {\"dst\": \"10.97.0.0/16\", \"gw\": \"10.17.0.1\"}]",
    }});
    let answer = add("ai/both", &both);
    assert_eq!(pool_number(&answer), "4");
    // Without a default route; with the route of the pod whose gateway is in the subnet.
    let routes: Vec<_> =
        answer.ok()["routes"].as_array().unwrap().iter().map(|route| route["dst"].clone()).collect();
    assert_eq!(routes, ["10.99.0.0/16", "10.98.0.0/16"]);
    assert_eq!(pool_number(&add("ai/pod", &annotated("ippool", &json!({"ipv4": ["of-p*"]})))), "3");
    assert_eq!(pool_number(&add("ai/none", &json!({}))), "2");
    assert_eq!(pool_number(&add("b/none", &json!({}))), "1");

    // Selectors. A pool with podAffinity comes before one with namespaceAffinity.
    let all = json!({"ipv4": ["plain", "of-tenant", "of-label"]});
    let labelled = |value: &str| {
        let mut more = annotated("ippool", &all);
        more["labels"] = json!({"app": value});
        more
    };
    assert_eq!(pool_number(&add("b/train", &labelled("train"))), "5");
    assert_eq!(pool_number(&add("b/serve", &labelled("serve"))), "6");
    assert_eq!(pool_number(&add("ai/serve", &labelled("serve"))), "1");
    let refused = add("ai/refused", &annotated("ippool", &json!({"ipv4": ["of-label", "of-tenant"]})));
    refused
        .refusal()
        .says(&["podAffinity does not select the pod", "namespaceAffinity does not select the pod"]);

    // STATUS is about any pod.
    let network = |pools: &[&str]| node.call("status", pools).status();
    network(&["of-label"]).done();
    network(&[]).done();
    network(&["none"]).refusal().says(&["does not exist"]);

    // Annotations that cannot be followed.
    add("ai/typo", &annotated("ippool", &json!({"ipv5": []})))
        .error(101)
        .says(&["wrong input", "unknown field `ipv5`"]);
    let other = annotated("ippools", &json!([{"interface": "net2", "ipv4": ["plain"]}]));
    add("ai/other", &other).error(101).says(&["no pools for interface net1", "for net2"]);
    add("ai/unknown", &annotated("ippool", &json!({"ipv4": ["none"]})))
        .refusal()
        .says(&["\"none\" of annotation ipam.spidernet.io/ippool of the pod does not exist"]);

    // The pool of a running pod is changed by a label of its namespace: new pods only.
    let uid = pod(&plane, "ai/later", &annotated("ippool", &json!({"ipv4": ["of-tenant"]})));
    call(&node, "ai/later", &uid).add().refusal().says(&["namespaceAffinity does not select"]);
    namespace(&plane, "ai", &json!({"tenant": "b"}), &of_namespace);
    wait_until("the namespace is selected", || call(&node, "ai/later", &uid).add().json()["ips"].is_array());

    // A pod that the API server does not know.
    call(&node, "ai/ghost", "00000000-0000-0000-0000-000000000000")
        .add()
        .error(11)
        .says(&["has no pod with the UID"]);
    call(&node, "ai/stolen", &uid)
        .ifname("net3")
        .add()
        .error(11)
        .says(&["expected pod ai/stolen", "found ai/later"]);
    node.call("nobody", &["plain"]).add().error(4).says(&["K8S_POD_UID is not set"]);
}

#[test]
fn pods_are_known_while_the_api_server_is_down_and_forgotten_when_they_are_gone() {
    let mut plane = ControlPlane::start();
    plane.apply(&pool("plain", "10.16.1.2-10.16.1.250", "16"));
    plane.apply(&pool("of-pod", "10.16.3.2-10.16.3.250", "16"));
    namespace(&plane, "ai", &json!({}), &json!({}));
    let mut node = PoolNode::start_watching_pods(&plane, "node-a");
    let more = annotated("ippool", &json!({"ipv4": ["of-pod"]}));
    let uids = ["ai/one", "ai/two"].map(|name| pod(&plane, name, &more));
    assert_eq!(pool_number(&call(&node, "ai/one", &uids[0]).add()), "3");
    let file = |node: &PoolNode, uid: &str| node.state_dir().join(format!("cluster/pods/{uid}.json"));
    wait_until("both pods are known", || file(&node, &uids[1]).exists());
    plane.kill_api();
    assert_eq!(pool_number(&call(&node, "ai/two", &uids[1]).add()), "3");
    // An agent that is started without an API server leaves the files.
    node.kill_agent();
    node.start_agent();
    call(&node, "ai/two", &uids[1]).del().done();
    assert_eq!(pool_number(&call(&node, "ai/two", &uids[1]).add()), "3");
    plane.start_api();
    delete(&plane, "ai/one");
    wait_until("the pod is forgotten", || !file(&node, &uids[0]).exists());
    // DEL does not need the file.
    call(&node, "ai/one", &uids[0]).del().done();
    // Without the option, annotations are ignored.
    node.kill_agent();
    node.stop_watching_pods();
    node.start_agent();
    assert!(!fs::exists(node.state_dir().join("cluster/pods")).unwrap());
    assert_eq!(pool_number(&call(&node, "ai/two", &uids[1]).ifname("net2").add()), "1");
}
