//! NetworkAttachmentDefinitions follow SpiderMultusConfig objects.

use serde_json::{Value, json};
use silkrail_tests::control_plane::{ControlPlane, wait_until};

/// Creates or changes a SpiderMultusConfig.
fn configure(plane: &ControlPlane, name: &str, annotations: &Value, mtu: &Value) {
    plane.apply(&json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
        "metadata": {"namespace": "default", "name": name, "annotations": annotations},
        "spec": {
            "cniType": "macvlan", "enableCoordinator": false,
            "macvlan": {"master": ["eth1"], "mtu": mtu, "ippools": {"ipv4": ["rail0"]}},
        },
    }));
}

/// Returns the names of the networks with the MTU of their configurations.
fn networks(plane: &ControlPlane) -> Vec<(String, Value)> {
    let network = |object: Value| {
        let config: Value = serde_json::from_str(object["spec"]["config"].as_str().unwrap_or("{}")).unwrap();
        (object["metadata"]["name"].as_str().unwrap().to_owned(), config["plugins"][0]["mtu"].clone())
    };
    plane.list("network-attachment-definitions").into_iter().map(network).collect()
}

#[test]
fn networks_follow_their_configurations() {
    let mut plane = ControlPlane::shared();
    plane.start_networks(&[]);
    configure(&plane, "rail0", &json!({"team": "a"}), &json!(9000));
    wait_until("the network is created", || networks(&plane) == [("rail0".to_owned(), json!(9000))]);
    let network = &plane.list("network-attachment-definitions")[0];
    let config: Value = serde_json::from_str(network["spec"]["config"].as_str().unwrap()).unwrap();
    let ipam = json!({"type": "silkrail-ipam", "store": "cluster", "default_ipv4_ippool": ["rail0"]});
    assert_eq!(config["plugins"][0]["ipam"], ipam);
    assert_eq!(network["metadata"]["annotations"]["team"], "a");
    assert_eq!(network["metadata"]["ownerReferences"][0]["kind"], "SpiderMultusConfig");

    // Changes of either are followed.
    configure(&plane, "rail0", &json!({"team": "a"}), &json!(4000));
    wait_until("it is changed", || networks(&plane) == [("rail0".to_owned(), json!(4000))]);
    let patch = json!({"spec": {"config": "{}"}});
    plane.api().merge("network-attachment-definitions", "default", "rail0", &patch);
    wait_until("it is restored", || networks(&plane) == [("rail0".to_owned(), json!(4000))]);
    plane.api().delete("network-attachment-definitions", "default", "rail0");
    wait_until("it is created again", || networks(&plane) == [("rail0".to_owned(), json!(4000))]);
    configure(&plane, "rail0", &json!({"multus.spidernet.io/cr-name": "other"}), &json!(4000));
    wait_until("it has its new name", || networks(&plane) == [("other".to_owned(), json!(4000))]);

    // An error is an event of the object; a network without an owner is not touched.
    configure(&plane, "rail0", &json!({"multus.spidernet.io/cr-name": "other"}), &json!("big"));
    let reports = |text: &str| {
        let events = plane.list("events");
        events.iter().any(|event| event["message"].as_str().is_some_and(|message| message.contains(text)))
    };
    wait_until("the error is reported", || reports("mtu"));
    assert_eq!(networks(&plane), [("other".to_owned(), json!(4000))]);
    plane.apply(&json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"namespace": "default", "name": "mine"}, "spec": {"config": "{}"},
    }));
    configure(&plane, "mine", &json!({}), &json!(1500));
    wait_until("the conflict is reported", || reports("default/mine exists and does not belong to it"));
    assert!(networks(&plane).contains(&("mine".to_owned(), Value::Null)));
}
