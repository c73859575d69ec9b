//! `sriov`: a VF's settings, applied and restored.

use serde_json::{Value, json};
use testkit::{Call, Observe, TestPod};

use silkrail_tests::machine::{LabMachine, LabVf};

fn call(machine: &LabMachine, vf: &LabVf, pod: &TestPod, settings: Value) -> Call {
    let mut conf = json!({"deviceID": vf.pci, "ipam": {}});
    conf.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    machine.plugin("sriov", &conf).pod(pod)
}

#[test]
fn case_085_invalid_vlans_are_refused_by_name() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let before = machine.node.snapshot();
    for (settings, expected) in [
        (json!({"vlan": 5000}), "vlan id 5000 invalid"),
        (json!({"vlan": -1}), "vlan id -1 invalid"),
        (json!({"vlan": 0, "vlanQoS": 1}), "non-zero vlan id must be configured"),
        (json!({"vlan": 0, "vlanProto": "802.1ad"}), "non-zero vlan id must be configured"),
        (json!({"vlan": 100, "vlanQoS": 10}), "vlan QoS 10 invalid"),
        (json!({"vlan": 100, "vlanProto": "802"}), "vlan Proto 802 invalid"),
        (json!({"vlanQoS": 1}), "vlan id must be configured"),
        (json!({"vlanProto": "802.1q"}), "vlan id must be configured"),
        (json!({"vlan": "100"}), "vlan: expected an integer"),
    ] {
        call(&machine, &vf, &pod, settings).add().error(7).says(&[expected]);
    }
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_085_valid_vlans_are_accepted() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    for settings in [
        json!({"vlan": 100}),
        json!({"vlan": 100, "vlanProto": "802.1Q"}),
        json!({"vlan": 0, "vlanQoS": 0, "vlanProto": "802.1q"}),
    ] {
        let call = call(&machine, &vf, &pod, settings);
        call.add().ok();
        call.del().done();
    }
}

#[test]
fn case_086_other_invalid_settings_are_refused_by_name() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let before = machine.node.snapshot();
    for (settings, expected) in [
        (json!({"link_state": "foo"}), vec!["link_state", "foo"]),
        (json!({"spoofchk": false}), vec!["spoofchk", "false"]),
        (json!({"trust": true}), vec!["trust", "true"]),
        (json!({"min_tx_rate": -1}), vec!["min_tx_rate", "-1"]),
        (json!({"min_tx_rate": 200, "max_tx_rate": 100}), vec!["min_tx_rate 200", "max_tx_rate 100"]),
        (json!({"mac": "zz"}), vec!["invalid args", "zz"]),
        (json!({"mac": "01:00:5e:00:00:01"}), vec!["mac", "01:00:5e:00:00:01"]),
        (json!({"mtu": -1}), vec!["mtu", "-1"]),
    ] {
        call(&machine, &vf, &pod, settings).add().error(7).says(&expected);
    }
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn values_that_the_go_plugin_accepts_are_accepted_with_a_warning() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let former = machine.vf_info(&vf);
    for (settings, warned, spoofchk) in [
        (json!({"spoofchk": "yes"}), r#"key="spoofchk" value="yes""#, false),
        (json!({"spoofchk": ""}), "", former["spoofchk"] == true),
        (json!({"trust": "enable"}), r#"key="trust" value="enable""#, former["spoofchk"] == true),
        (json!({"mtu": 9001}), r#"mtu="9001""#, former["spoofchk"] == true),
    ] {
        let call = call(&machine, &vf, &pod, settings);
        let answer = call.add();
        let result = answer.ok();
        assert_eq!(result["interfaces"][0]["mtu"], 1500);
        assert!(answer.stderr.contains(warned), "{answer:?}");
        assert_eq!(answer.stderr.contains("level=warn"), !warned.is_empty(), "{answer:?}");
        let now = machine.vf_info(&vf);
        assert_eq!((&now["spoofchk"], &now["trust"]), (&json!(spoofchk), &json!(false)));
        call.del().done();
    }
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_087_without_settings_the_pf_is_not_changed() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 2), machine.node.pod("a"));
    machine.node.run_ip(&format!("link set eth0 vf {} vlan 55 qos 2 spoofchk off trust on", vf.index));
    let before = machine.vf_info(&vf);
    let call = call(&machine, &vf, &pod, json!({}));
    call.add().ok();
    assert_eq!(machine.vf_info(&vf), before, "settings of the administrator are kept");
    call.del().done();
    assert_eq!(machine.vf_info(&vf), before);
    machine.node.run_ip(&format!("link set eth0 vf {} vlan 0 spoofchk on trust off", vf.index));
}

#[test]
fn case_089_a_vlan_is_set_and_removed() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 3), machine.node.pod("a"));
    let call = call(&machine, &vf, &pod, json!({"vlan": 1234, "vlanQoS": 5}));
    let result = call.add().ok();
    let vlan = &machine.vf_info(&vf)["vlan_list"][0];
    assert_eq!((&vlan["vlan"], &vlan["qos"]), (&json!(1234), &json!(5)));
    call.check_after(&result).done();
    machine.node.run_ip(&format!("link set eth0 vf {} vlan 99", vf.index));
    call.check_after(&result).error(103).says(&["vlan"]);
    call.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_090_a_mac_address_is_set_and_the_former_one_is_restored() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 4), machine.node.pod("a"));
    let call = call(&machine, &vf, &pod, json!({"mac": "C2:11:22:33:44:55"}));
    let result = call.add().ok();
    assert_eq!(result["interfaces"][0]["mac"], "c2:11:22:33:44:55");
    assert_eq!(pod.link("net1").unwrap()["address"], "c2:11:22:33:44:55");
    assert_eq!(machine.vf_info(&vf)["address"], "c2:11:22:33:44:55");
    call.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_043_runtime_config_overrides_cni_args_and_the_configuration() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 4), machine.node.pod("a"));
    let call = call(
        &machine,
        &vf,
        &pod,
        json!({"mac": "c2:00:00:00:00:01", "runtimeConfig": {"mac": "c2:00:00:00:00:03"}}),
    );
    let call = call.args("IgnoreUnknown=true;MAC=c2:00:00:00:00:02");
    call.add().ok();
    assert_eq!(pod.link("net1").unwrap()["address"], "c2:00:00:00:00:03");
    call.del().done();
}

#[test]
fn case_100_every_setting_is_restored() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 5);
    machine.node.run_ip(&format!("link set eth0 vf {} vlan 55 qos 2 spoofchk off trust on", vf.index));
    machine.node.run_ip(&format!("link set eth0 vf {} max_tx_rate 500", vf.index));
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    let settings = json!({
        "vlan": 1000, "vlanQoS": 4, "spoofchk": "on", "trust": "off", "max_tx_rate": 200, "mtu": 1400
    });
    let call = call(&machine, &vf, &pod, settings);
    call.add().ok();
    let during = machine.vf_info(&vf);
    assert_eq!(during["vlan_list"][0]["vlan"], 1000);
    assert_eq!((&during["spoofchk"], &during["trust"]), (&json!(true), &json!(false)));
    assert_eq!(during["rate"]["max_tx"], 200);
    assert_eq!(pod.link("net1").unwrap()["mtu"], 1400);
    call.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
    machine.node.run_ip(&format!("link set eth0 vf {} vlan 0 spoofchk on trust off", vf.index));
    machine.node.run_ip(&format!("link set eth0 vf {} max_tx_rate 0", vf.index));
}

#[test]
fn invariant_1_a_setting_not_supported_by_the_driver_is_reported_and_reverted() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 6), machine.node.pod("a"));
    let call = call(&machine, &vf, &pod, json!({"vlan": 100, "trust": "on", "link_state": "enable"}));
    call.add().error(2).says(&["link_state", "driver igb"]);
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}
