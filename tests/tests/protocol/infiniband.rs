//! The configurations of ib-sriov and ipoib.

use serde_json::{Value, json};
use testkit::Refusal;

use crate::{ProtocolFixture, valid};

/// Returns the error of an ADD of ib-sriov with these keys.
fn refused(fixture: &ProtocolFixture, keys: &Value) -> Refusal {
    let mut conf = valid("ib-sriov");
    conf["deviceID"] = json!("0000:00:00.0");
    conf.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    fixture.call("ib-sriov").conf(&conf).add().error(7)
}

#[test]
fn case_113_an_invalid_guid_is_an_error() {
    let fixture = ProtocolFixture::new();
    let seven = "02:00:00:00:00:00:01";
    for text in [
        "invalid GUID",
        seven,
        "00:00:00:00:00:00:00:00",
        "02:00:00-00:00:00:00:01",
        "+2:00:00:00:00:00:00:01",
    ] {
        for keys in
            [json!({"runtimeConfig": {"infinibandGUID": text}}), json!({"args": {"cni": {"guid": text}}})]
        {
            assert_eq!(refused(&fixture, &keys).msg, format!("invalid guid {text}"));
        }
    }
    let both = json!({"runtimeConfig": {"infinibandGUID": seven}, "args": {"cni": {"guid": "02:00:00:00:00:00:00:02"}}});
    assert_eq!(
        refused(&fixture, &both).msg,
        format!("invalid guid {seven}"),
        "the runtime's takes precedence"
    );
    assert!(fixture.is_untouched());
}

#[test]
fn case_119_ib_kubernetes_must_have_configured_the_pod() {
    let fixture = ProtocolFixture::new();
    for args in [json!({}), json!({"cni": {}}), json!({"cni": {"mellanox.infiniband.app": "pending"}})] {
        let refusal = refused(&fixture, &json!({"ibKubernetesEnabled": true, "args": args}));
        refusal.says(&["mellanox.infiniband.app", "configured"]);
    }
    assert!(fixture.is_untouched());
}

#[test]
fn other_values_of_ib_sriov_are_checked_before_anything_is_changed() {
    let fixture = ProtocolFixture::new();
    for (keys, part) in [
        (json!({"deviceID": null}), "deviceID is required"),
        (json!({"deviceID": "../../etc"}), "deviceID"),
        (json!({"link_state": "up"}), "invalid link_state value: up"),
        (json!({"ipam": {"type": "dhcp"}}), "ipam type dhcp is not supported"),
        (json!({"rdma": {"require": true}}), "rdmaIsolation"),
        (json!({"vfioPciMode": "yes"}), "vfioPciMode"),
    ] {
        refused(&fixture, &keys).says(&[part]);
    }
    assert!(fixture.is_untouched());
}
