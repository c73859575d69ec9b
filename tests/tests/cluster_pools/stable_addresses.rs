//! Pods of a StatefulSet keep their addresses when they are created again, on any node.

use serde_json::{Value, json};
use silkrail_tests::{
    control_plane::{ControlPlane, wait_until},
    pool_node::PoolNode,
};

use crate::{
    pods::{call, delete, namespace, pod_on},
    pool,
};

/// Returns the metadata of a pod of a StatefulSet.
fn of_stateful_set() -> Value {
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true, "blockOwnerDeletion": true,
    });
    json!({"ownerReferences": [owner]})
}

/// Calls ADD until there is an address.
fn address(node: &PoolNode, name: &str, uid: &str) -> String {
    let mut address = String::new();
    wait_until("the pod has an address", || {
        let result = call(node, name, uid).add().json();
        assert!(result["code"].is_null() || result["code"] == 11, "{result}\n{}", node.log());
        address = result["ips"][0]["address"].as_str().unwrap_or_default().to_owned();
        !address.is_empty()
    });
    address
}

#[test]
fn a_pod_of_a_stateful_set_keeps_its_address_on_another_node() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("plain", "10.16.1.1-10.16.1.6", "1"));
    namespace(&plane, "ai", &json!({}), &json!({}));
    let [node, other] = ["node-a", "node-b"].map(|name| PoolNode::start_watching_pods(&plane, name));
    let mut uid = pod_on(&plane, "node-a", "ai/web-0", &of_stateful_set());
    let first = address(&node, "ai/web-0", &uid);
    let reserved = || {
        plane.kubectl(&[
            "get",
            "ipreservations",
            "--all-namespaces",
            "--output=jsonpath={.items[*].spec.addresses[*].address}",
        ])
    };
    assert_eq!(format!("{}/16", reserved()), first);
    // A pod without a stable name has no reservation.
    let plain = pod_on(&plane, "node-a", "ai/plain", &json!({}));
    let second = address(&node, "ai/plain", &plain);
    assert!(second != first && format!("{}/16", reserved()) == first);

    // The pod is created again on the other node before the first node has ended it.
    delete(&plane, "ai/web-0");
    let old = std::mem::replace(&mut uid, pod_on(&plane, "node-b", "ai/web-0", &of_stateful_set()));
    call(&other, "ai/web-0", &uid).add().error(11).says(&["another node has leased its block"]);
    // Nobody else gets the address meanwhile.
    call(&node, "ai/web-0", &old).del().done();
    for number in 0..4 {
        let name = format!("ai/more-{number}");
        let more = pod_on(&plane, "node-a", &name, &json!({}));
        let result = call(&node, &name, &more).add().json();
        assert_ne!(result["ips"][0]["address"], first.as_str());
    }
    assert_eq!(address(&other, "ai/web-0", &uid), first);
    // And back, where its sandbox is restarted.
    delete(&plane, "ai/web-0");
    call(&other, "ai/web-0", &uid).del().done();
    uid = pod_on(&plane, "node-a", "ai/web-0", &of_stateful_set());
    assert_eq!(address(&node, "ai/web-0", &uid), first);
    call(&node, "ai/web-0", &uid).del().done();
    assert_eq!(address(&node, "ai/web-0", &uid), first);
}

#[test]
fn ipam_case_089_a_stable_address_changes_with_the_pools_of_the_pod() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("plain", "10.16.1.1-10.16.1.6", "1"));
    plane.apply(&pool("other", "10.16.2.1-10.16.2.6", "1"));
    plane.apply(&pool("blocks", "10.16.3.1-10.16.3.62", "16"));
    namespace(&plane, "ai", &json!({}), &json!({}));
    let node = PoolNode::start_watching_pods(&plane, "node-a");
    let create = |pools: Option<&str>| {
        let mut metadata = of_stateful_set();
        if let Some(pools) = pools {
            metadata["annotations"] =
                json!({"ipam.spidernet.io/ippool": json!({"ipv4": [pools]}).to_string()});
        }
        pod_on(&plane, "node-a", "ai/web-0", &metadata)
    };
    let end = |uid: &str| {
        delete(&plane, "ai/web-0");
        call(&node, "ai/web-0", uid).del().done();
    };
    let mut uid = create(None);
    let first = address(&node, "ai/web-0", &uid);
    end(&uid);
    uid = create(Some("other"));
    let second = address(&node, "ai/web-0", &uid);
    assert!(first.starts_with("10.16.1.") && second.starts_with("10.16.2."), "{first} {second}");
    end(&uid);
    uid = create(Some("other"));
    assert_eq!(address(&node, "ai/web-0", &uid), second);
    end(&uid);
    // Addresses of larger blocks are not reserved.
    plane.kubectl(&["delete", "ipreservations", "--all", "--namespace=ai"]);
    uid = create(Some("blocks"));
    assert!(address(&node, "ai/web-0", &uid).starts_with("10.16.3."));
    assert!(plane.list("ipreservations").is_empty());
}

#[test]
fn a_reservation_that_cannot_be_used_stops_nobody() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("plain", "10.16.1.1-10.16.1.6", "1"));
    namespace(&plane, "ai", &json!({}), &json!({}));
    for (number, address) in ["10.16.1.3/16", "::ffff:10.16.1.4", "10.16.1.05", "xy"].iter().enumerate() {
        plane.apply(&json!({
            "apiVersion": "ipam.silkrail.io/v1alpha1", "kind": "IPReservation",
            "metadata": {"namespace": "ai", "name": format!("wrong-{number}.net1")},
            "spec": {"addresses": [{"pool": "plain", "address": address}]},
        }));
    }
    let node = PoolNode::start_watching_pods(&plane, "node-a");
    let create = |owner: &str| {
        let mut metadata = of_stateful_set();
        metadata["ownerReferences"][0]["uid"] = json!(owner);
        pod_on(&plane, "node-a", "ai/web-0", &metadata)
    };
    let end = |uid: &str| {
        delete(&plane, "ai/web-0");
        call(&node, "ai/web-0", uid).del().done();
    };
    let mut uid = create("1");
    let first = address(&node, "ai/web-0", &uid);
    // The address is requested by name, and the sandbox is restarted with the request.
    let asked = |uid: &str| {
        call(&node, "ai/web-0", uid).with("runtimeConfig", &json!({"ips": [first.replace("/16", "")]}))
    };
    end(&uid);
    uid = create("1");
    wait_until("the requested address is assigned", || {
        let result = asked(&uid).add().json();
        assert!(result["code"].is_null() || result["code"] == 11, "{result}");
        result["ips"][0]["address"] == first.as_str()
    });
    // The StatefulSet is created again under its name: the reservation is no longer deleted with the former one.
    end(&uid);
    uid = create("2");
    assert_eq!(address(&node, "ai/web-0", &uid), first);
    let owner = "--output=jsonpath={.metadata.ownerReferences[0].uid}";
    assert_eq!(plane.kubectl(&["get", "ipreservation", "web-0.net1", "--namespace=ai", owner]), "2");
    // The pool has the address no more.
    end(&uid);
    let mut smaller = pool("plain", "10.16.1.1-10.16.1.6", "1");
    smaller["spec"]["excludeIPs"] = json!([first.replace("/16", "")]);
    plane.apply(&smaller);
    wait_until("the agent has read it", || node.pool_files().contains("excludeIPs"));
    uid = create("2");
    let second = address(&node, "ai/web-0", &uid);
    assert_ne!(second, first);
    end(&uid);
    uid = create("2");
    assert_eq!(address(&node, "ai/web-0", &uid), second);
}
