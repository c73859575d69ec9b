//! What a network has instead of Spiderpool's coordinator, and settings whose absence or former name matters.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use serde_json::{Value, json};
use spider_multus::{NetworkAttachment, SpiderMultusConfigs, Target};

fn network(spec: &str, target: Target) -> NetworkAttachment {
    let text = format!("kind: SpiderMultusConfig\nmetadata: {{name: rail0}}\nspec: {spec}\n");
    NetworkAttachment::of(&SpiderMultusConfigs::parse(&text).unwrap().configs[0], target)
}

fn plugins_of(spec: &str, target: Target) -> Value {
    let network: Value = serde_json::from_str(&network(spec, target).config.unwrap()).unwrap();
    network["plugins"].clone()
}

fn plugins(spec: &str) -> Value {
    plugins_of(spec, Target::Spiderpool)
}

fn remarks(spec: &str, target: Target) -> Vec<String> {
    network(spec, target).remarks
}

#[test]
fn the_settings_of_the_coordinator_are_passed_on() {
    let spec = "{cniType: ipoib, ipoib: {master: ib0}, coordinator: {mode: underlay, podMACPrefix: '0a:1b', \
                hijackCIDR: [10.0.0.0/8], podDefaultRouteNIC: net1, podCIDRType: auto, txQueueLen: 500}}";
    let expected = json!({
        "type": "coordinator", "mode": "underlay", "tunePodRoutes": true, "txQueueLen": 500, "podMACPrefix": "0a:1b",
        "hijackCIDR": ["10.0.0.0/8"], "podDefaultRouteNic": "net1",
    });
    assert_eq!(plugins(spec)[1], expected);
    let found = remarks(spec, Target::Silkrail);
    let expected = "without the coordinator hijackCIDR has no effect: [\"10.0.0.0/8\"]";
    assert!(found.iter().any(|remark| remark == expected), "{found:?}");
    let usual = "{cniType: ipoib, ipoib: {master: ib0}, coordinator: {podCIDRType: none, podRPFilter: 2, vethMTU: 1500, \
                 detectGateway: false, policyRoutes: []}}";
    let expected = json!({
        "type": "coordinator", "mode": "auto", "tunePodRoutes": true, "txQueueLen": 0, "podRPFilter": 2, "vethMTU": 1500,
    });
    assert_eq!(plugins(usual)[1], expected);
    assert_eq!(remarks(usual, Target::Silkrail).len(), 1);
}

#[test]
fn conflicts_are_detected_by_the_plugin_where_there_is_no_coordinator() {
    let spec = "{cniType: macvlan, macvlan: {master: [eth1]}, coordinator: {detectIPConflict: true}}";
    assert_eq!(plugins(spec)[1]["detectIPConflict"], true);
    let vf = "{cniType: sriov, sriov: {resourceName: a.io/vf}, coordinator: {detectIPConflict: true}}";
    assert!(plugins(vf)[0]["detectIPConflict"].is_null() && plugins(spec)[0]["detectIPConflict"].is_null());
    for target in [Target::Silkrail, Target::SilkrailCluster] {
        for spec in [spec, vf] {
            assert_eq!(plugins_of(spec, target)[0]["detectIPConflict"], true);
            assert!(remarks(spec, target).iter().all(|remark| !remark.contains("detectIPConflict")));
        }
        for off in ["mode: disabled, detectIPConflict: true", "detectIPConflict: false", "vethMTU: 1500"] {
            let spec = format!("{{cniType: macvlan, macvlan: {{master: [eth1]}}, coordinator: {{{off}}}}}");
            assert!(plugins_of(&spec, target)[0]["detectIPConflict"].is_null(), "{off}");
            assert_eq!(remarks(&spec, target).is_empty(), off.contains("disabled"), "{off}");
        }
        let none = "{cniType: macvlan, macvlan: {master: [eth1]}, enableCoordinator: false, coordinator: {detectIPConflict: true}}";
        assert!(plugins_of(none, target)[0]["detectIPConflict"].is_null());
    }
    let ipam = json!({"type": "silkrail-ipam", "store": "cluster"});
    assert_eq!(plugins_of(spec, Target::SilkrailCluster)[0]["ipam"], ipam);
    let spec = "{cniType: ipvlan, ipvlan: {master: [eth1]}, coordinator: {detectIPConflict: true}}";
    assert!(plugins_of(spec, Target::Silkrail)[0]["detectIPConflict"].is_null());
    let remarks = remarks(spec, Target::Silkrail);
    assert!(remarks.iter().any(|remark| remark.contains("detectIPConflict has no effect")), "{remarks:?}");
}

#[test]
fn the_present_name_of_a_setting_precedes_the_former_one() {
    let ipam = json!({"type": "spiderpool"});
    for (settings, expected) in [
        (
            "minTxRate: 1, maxTxRate: 2",
            json!({"type": "sriov", "min_tx_rate": 1, "max_tx_rate": 2, "ipam": ipam}),
        ),
        (
            "minTxRateMbps: 0, maxTxRateMbps: 3, rdmaIsolation: false, enableRdma: true",
            json!({"type": "sriov", "min_tx_rate": 0, "max_tx_rate": 3, "ipam": ipam}),
        ),
        // A maximum of 0 is none.
        (
            "minTxRateMbps: 5, maxTxRateMbps: 0, mtu: 0",
            json!({"type": "sriov", "min_tx_rate": 5, "max_tx_rate": 0, "ipam": ipam}),
        ),
    ] {
        let spec = format!(
            "{{cniType: sriov, enableCoordinator: false, sriov: {{resourceName: a.io/vf, {settings}}}}}"
        );
        assert_eq!(plugins(&spec), json!([expected]), "{settings}");
    }
    for (settings, isolation, kubernetes) in [
        ("pkey: ''", true, false),
        ("rdmaIsolation: false, ibKubernetesEnabled: true", false, true),
        ("enableIbKubernetes: false, ibKubernetesEnabled: true", true, false),
    ] {
        let spec = format!(
            "{{cniType: ib-sriov, enableCoordinator: false, ibsriov: {{resourceName: a.io/ib, {settings}}}}}"
        );
        let expected = json!([{
            "type": "ib-sriov", "link_state": "enable", "rdmaIsolation": isolation, "ibKubernetesEnabled": kubernetes, "ipam": ipam,
        }]);
        assert_eq!(plugins(&spec), expected, "{settings}");
    }
}

#[test]
fn a_network_has_addresses_unless_the_newer_of_two_settings_says_otherwise() {
    for (settings, has_ipam) in [
        ("disableIPAM: false", true),
        ("disableIPAM: true", false),
        ("disableIPAM: true, ipam: {enabled: true}", true),
        ("disableIPAM: false, ipam: {enabled: false}", false),
        ("disableIPAM: true, ipam: {logOptions: {}}", false),
        ("ipam: {}", true),
    ] {
        let spec = format!("{{cniType: ipoib, ipoib: {{master: ib0}}, {settings}}}");
        assert_eq!(plugins(&spec)[0].get("ipam").is_some(), has_ipam, "{settings}");
    }
}

#[test]
fn what_is_not_set_has_the_default_of_the_controller() {
    let spec = "{cniType: vlan, enableCoordinator: false, vlan: {master: [p0], vlanMode: auto, mtu: 9000}}";
    let ipam = json!({"type": "spiderpool"});
    let vlan = json!({"type": "vlan", "master": "p0", "vlanMode": "auto", "mtu": 9000, "ipam": ipam});
    assert_eq!(plugins(spec), json!([vlan]));
    let spec = "{cniType: macvlan, enableCoordinator: false, macvlan: {master: [p0, p1], vlanID: 0, mtu: 0, bond: {name: b0, options: ''}}}";
    let ifacer = json!({"type": "ifacer", "interfaces": ["p0", "p1"], "bond": {"name": "b0", "mode": 0}});
    let macvlan = json!({"type": "macvlan", "master": "b0", "mode": "bridge", "ipam": ipam});
    assert_eq!(plugins(spec), json!([ifacer, macvlan]));
    let spec = "{cniType: ovs, enableCoordinator: false, ovs: {bridge: br0, deviceID: ''}}";
    assert_eq!(plugins(spec), json!([{"type": "ovs", "bridge": "br0", "vlan": 0, "ipam": ipam}]));
    assert!(network(spec, Target::Spiderpool).annotations.is_empty());
}

#[test]
fn an_object_of_another_group_is_not_a_configuration() {
    let of = |version: &str| {
        let text =
            format!("apiVersion: {version}\nkind: SpiderMultusConfig\nmetadata: {{name: a}}\nspec: {{}}\n");
        SpiderMultusConfigs::parse(&text).unwrap()
    };
    let other = of("example.com/v1");
    assert_eq!((other.configs.len(), other.ignored.len()), (0, 1));
    for version in ["spiderpool.spidernet.io/v1", "''"] {
        assert_eq!(of(version).configs.len(), 1, "{version}");
    }
    let annotated = "kind: SpiderMultusConfig\nmetadata: {name: a, annotations: {cni.spidernet.io/cniconfig-name: ''}}\n\
                     spec: {cniType: ipoib, ipoib: {master: ib0}}\n";
    let config = &SpiderMultusConfigs::parse(annotated).unwrap().configs[0];
    let text = NetworkAttachment::of(config, Target::Silkrail).config.unwrap();
    assert!(text.contains("\"name\": \"a\""), "an empty name is none: {text}");
}
