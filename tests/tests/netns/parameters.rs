//! macvlan's settings: MAC address, MTU, mode, queue.

use serde_json::{Value, json};
use testkit::Observe;

use silkrail_tests::rail::RailNode;

const GIVEN: &str = "c2:11:22:33:44:55";

#[test]
fn case_041_the_mac_address_of_the_arguments() {
    let rail = RailNode::new();
    let result = rail.macvlan(&json!({})).args(&format!("IgnoreUnknown=true;MAC={GIVEN}")).add().ok();
    assert_eq!(result["interfaces"][0]["mac"], GIVEN);
    assert_eq!(rail.pod.link("net1").unwrap()["address"], GIVEN);
}

#[test]
fn case_042_the_mac_address_of_the_runtime_configuration() {
    let rail = RailNode::new();
    let result = rail.macvlan(&json!({"runtimeConfig": {"mac": GIVEN}})).add().ok();
    assert_eq!(result["interfaces"][0]["mac"], GIVEN);
    assert_eq!(rail.pod.link("net1").unwrap()["address"], GIVEN);
}

#[test]
fn case_043_the_runtime_configuration_precedes_the_arguments_and_these_the_configuration() {
    let rail = RailNode::new();
    let conf = json!({"mac": "c2:00:00:00:00:01", "runtimeConfig": {"mac": "c2:00:00:00:00:03"}});
    let mac = |conf: &Value, args: &str| {
        let call = rail.layer_2(conf).args(args);
        let mac = call.add().ok()["interfaces"][0]["mac"].clone();
        call.del().done();
        mac
    };
    assert_eq!(mac(&conf, "MAC=c2:00:00:00:00:02"), "c2:00:00:00:00:03");
    assert_eq!(mac(&json!({"mac": "c2:00:00:00:00:01"}), "MAC=c2:00:00:00:00:02"), "c2:00:00:00:00:02");
    assert_eq!(mac(&json!({"mac": "c2:00:00:00:00:01"}), ""), "c2:00:00:00:00:01");
}

#[test]
fn case_044_an_invalid_mac_address_is_refused() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for text in ["zz", "c2:11:22:33:44", "c2:11:22:33:44:55:66:77", "c2:11:22:33:44:5g"] {
        rail.macvlan(&json!({"mac": text})).add().error(7).says(&["invalid args", text]);
    }
    for group in ["01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"] {
        rail.macvlan(&json!({"mac": group})).add().error(7).says(&[group]);
    }
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_mac_address_may_be_written_in_any_usual_form() {
    let rail = RailNode::new();
    for text in ["C2:11:22:33:44:55", "c2-11-22-33-44-55", "c211.2233.4455"] {
        let call = rail.layer_2(&json!({"mac": text}));
        assert_eq!(call.add().ok()["interfaces"][0]["mac"], GIVEN);
        call.del().done();
    }
}

#[test]
fn case_045_an_mtu_beyond_the_masters_is_refused() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for mtu in [9000, -1, 1501, i64::MAX, i64::MIN] {
        let refusal = rail.macvlan(&json!({"mtu": mtu})).add().error(7);
        assert_eq!(refusal.msg, format!("invalid MTU {mtu}, must be [0, master MTU(1500)]"));
    }
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn case_045_an_mtu_below_the_masters_is_set_and_the_default_is_the_masters() {
    let rail = RailNode::new();
    for (conf, mtu) in [(json!({"mtu": 1400}), 1400), (json!({"mtu": 0}), 1500), (json!({}), 1500)] {
        let call = rail.layer_2(&conf);
        assert_eq!(call.add().ok()["interfaces"][0]["mtu"], mtu);
        assert_eq!(rail.pod.link("net1").unwrap()["mtu"], mtu);
        call.del().done();
    }
}

#[test]
fn case_046_the_link_has_the_configured_mode() {
    let rail = RailNode::new();
    for (conf, mode) in [
        (json!({}), "bridge"),
        (json!({"mode": ""}), "bridge"),
        (json!({"mode": "bridge"}), "bridge"),
        (json!({"mode": "private"}), "private"),
        (json!({"mode": "vepa"}), "vepa"),
        (json!({"mode": "passthru"}), "passthru"),
    ] {
        let call = rail.layer_2(&conf);
        call.add().ok();
        assert_eq!(rail.pod.link("net1").unwrap()["linkinfo"]["info_data"]["mode"], mode);
        call.del().done();
    }
}

#[test]
fn case_046_an_unknown_mode_is_refused() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for mode in ["foo", "source", "Bridge"] {
        let refusal = rail.macvlan(&json!({"mode": mode})).add().error(7);
        assert_eq!(refusal.msg, format!("unknown macvlan mode: {mode:?}"));
    }
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn case_047_the_broadcast_queue_has_the_configured_length() {
    let rail = RailNode::new();
    rail.layer_2(&json!({"bcqueuelen": 2000})).add().ok();
    assert_eq!(rail.pod.link("net1").unwrap()["linkinfo"]["info_data"]["bcqueuelen"], 2000);
    let negative = rail.layer_2(&json!({"bcqueuelen": -1})).container("b").ifname("net2");
    negative.add().error(7).says(&["bcqueuelen", "-1"]);
}

#[test]
fn the_resolver_settings_of_the_result_are_the_configurations() {
    let rail = RailNode::new();
    let dns = json!({"nameservers": ["10.7.0.2"], "domain": "rail.example", "options": ["ndots:5"]});
    assert_eq!(rail.macvlan(&json!({"dns": dns})).add().ok()["dns"], dns);
}
