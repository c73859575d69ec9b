//! Documents as users of Spiderpool write them, and the networks that its controller makes of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use serde_json::{Value, json};
use spider_multus::{CniType, NetworkAttachment, SpiderMultusConfigs, Target};

fn document(spec: &str) -> String {
    format!(
        "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderMultusConfig\n\
         metadata: {{name: rail0, namespace: kube-system}}\nspec: {spec}\n"
    )
}

fn rendered(text: &str, target: Target) -> NetworkAttachment {
    let configs = SpiderMultusConfigs::parse(text).unwrap().configs;
    NetworkAttachment::of(&configs[0], target)
}

fn configuration(text: &str, target: Target) -> Value {
    serde_json::from_str(&rendered(text, target).config.unwrap()).unwrap()
}

fn plugins(spec: &str) -> Value {
    configuration(&document(spec), Target::Spiderpool)["plugins"].clone()
}

fn refusal(spec: &str) -> String {
    SpiderMultusConfigs::parse(&document(spec)).unwrap_err().to_string()
}

/// What the controller adds to each network that does not set it otherwise.
fn coordinator() -> Value {
    json!({"type": "coordinator", "mode": "auto", "tunePodRoutes": true, "txQueueLen": 0})
}

const MACVLAN: &str = "
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: v4-81}
spec: {subnet: 172.81.0.0/16, ips: [172.81.0.100-172.81.0.120], gateway: 172.81.0.1}
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderMultusConfig
metadata:
  name: macvlan-ens6f0np0
  namespace: kube-system
spec:
  cniType: macvlan
  macvlan:
    master:
    - \"ens6f0np0\"
    ippools:
      ipv4: [\"v4-81\"]
";

const SRIOV: &str = "
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderMultusConfig
metadata: {name: sriov-rdma, namespace: kube-system}
spec:
  cniType: sriov
  sriov:
    resourceName: spidernet.io/mellanoxrdma
    enableRdma: true
    ippools:
      ipv4: [\"v4-81\"]
";

#[test]
fn the_shared_network_of_a_guide_is_rendered() {
    let network = rendered(MACVLAN, Target::Spiderpool);
    assert_eq!(
        (network.namespace.as_deref(), network.name.as_str()),
        (Some("kube-system"), "macvlan-ens6f0np0")
    );
    assert!(network.annotations.is_empty() && network.remarks.is_empty());
    let ipam = json!({"type": "spiderpool", "default_ipv4_ippool": ["v4-81"]});
    let macvlan = json!({"type": "macvlan", "master": "ens6f0np0", "mode": "bridge", "ipam": ipam});
    let expected =
        json!({"cniVersion": "0.3.1", "name": "macvlan-ens6f0np0", "plugins": [macvlan, coordinator()]});
    assert_eq!(configuration(MACVLAN, Target::Spiderpool), expected);
}

#[test]
fn the_exclusive_network_of_a_guide_is_rendered() {
    let network = rendered(SRIOV, Target::Spiderpool);
    assert_eq!(network.annotations["k8s.v1.cni.cncf.io/resourceName"], "spidernet.io/mellanoxrdma");
    let ipam = json!({"type": "spiderpool", "default_ipv4_ippool": ["v4-81"]});
    let plugins = json!([{"type": "sriov", "ipam": ipam}, {"type": "rdma"}, coordinator()]);
    assert_eq!(configuration(SRIOV, Target::Spiderpool)["plugins"], plugins);
}

#[test]
fn without_spiderpool_a_network_needs_no_program_of_it() {
    let network = rendered(SRIOV, Target::Silkrail);
    let ipam = json!({"type": "silkrail-ipam", "default_ipv4_ippool": ["v4-81"]});
    let plugins = json!([{"type": "sriov", "ipam": ipam}, {"type": "rdma"}]);
    assert_eq!(configuration(SRIOV, Target::Silkrail)["plugins"], plugins);
    assert!(network.remarks[0].starts_with("without the coordinator"), "{:?}", network.remarks);
    let spec = "{cniType: sriov, enableCoordinator: false, chainCNIJsonData: ['{\"type\": \"coordinator\"}'], \
                sriov: {resourceName: a.io/vf, ippools: {ipv4: [a], matchMasterSubnet: true}}}";
    let network = rendered(&document(spec), Target::Silkrail);
    let ipam = json!({"type": "silkrail-ipam", "default_ipv4_ippool": ["a"]});
    assert_eq!(
        configuration(&document(spec), Target::Silkrail)["plugins"][0],
        json!({"type": "sriov", "ipam": ipam})
    );
    let [subnet, chained] = &network.remarks[..] else { panic!("{:?}", network.remarks) };
    assert!(
        subnet.contains("matchMasterSubnet") && chained.contains("chainCNIJsonData"),
        "{:?}",
        network.remarks
    );
    for (plugin, remarks) in [("coordinator", 1), ("spiderpool", 1), ("bridge", 0)] {
        let custom = document(&format!("{{cniType: custom, customCNI: '{{\"type\": \"{plugin}\"}}'}}"));
        assert_eq!(rendered(&custom, Target::Silkrail).remarks.len(), remarks, "{plugin}");
        assert_eq!(rendered(&custom, Target::Spiderpool).remarks, [""; 0]);
    }
}

#[test]
fn every_type_has_its_plugins_in_the_order_in_which_they_are_called() {
    let ipam = json!({"type": "spiderpool"});
    for (spec, expected) in [
        (
            "{cniType: macvlan, macvlan: {master: [p0], vlanID: 100, mtu: 9000, rdmaResourceName: a.io/b}}",
            json!([
                {"type": "ifacer", "interfaces": ["p0"], "vlanID": 100},
                {"type": "macvlan", "master": "p0.100", "mode": "bridge", "mtu": 9000, "ipam": ipam},
                coordinator(),
            ]),
        ),
        (
            "{cniType: ipvlan, ipvlan: {master: [p0, p1], vlanID: 7, bond: {name: bond0, mode: 1, options: 'miimon=100'}}}",
            json!([
                {
                    "type": "ifacer", "interfaces": ["p0", "p1"], "vlanID": 7,
                    "bond": {"name": "bond0", "mode": 1, "options": "miimon=100"},
                },
                {"type": "ipvlan", "master": "bond0.7", "ipam": ipam},
                coordinator(),
            ]),
        ),
        (
            "{cniType: macvlan, macvlan: {master: [p0], vlanID: 7, bond: {name: bond0, mode: 1}}}",
            json!([
                {"type": "ifacer", "interfaces": ["p0"], "vlanID": 7},
                {"type": "macvlan", "master": "p0.7", "mode": "bridge", "ipam": ipam},
                coordinator(),
            ]),
        ),
        (
            "{cniType: vlan, vlan: {master: [p0, p1], vlanID: 7, bond: {name: bond0, mode: 4}}}",
            json!([
                {"type": "ifacer", "interfaces": ["p0", "p1"], "bond": {"name": "bond0", "mode": 4}},
                {"type": "vlan", "master": "bond0", "vlanMode": "manual", "vlanId": 7, "ipam": ipam},
                coordinator(),
            ]),
        ),
        (
            "{cniType: sriov, chainCNIJsonData: ['{\"a\": 1, \"type\": \"sbr\"}'], sriov: {resourceName: a.io/vf, \
             vlanID: 100, mtu: 8000, minTxRateMbps: 10, maxTxRateMbps: 100, rdmaIsolation: true, \
             ippools: {ipv4: [a, b], ipv6: [c], matchMasterSubnet: true}}}",
            json!([
                {
                    "type": "sriov", "vlan": 100, "min_tx_rate": 10, "max_tx_rate": 100,
                    "ipam": {
                        "type": "spiderpool", "default_ipv4_ippool": ["a", "b"], "default_ipv6_ippool": ["c"],
                        "match_master_subnet": true,
                    },
                },
                {"type": "rdma"},
                {"type": "sbr", "a": 1},
                coordinator(),
                {"type": "tuning", "mtu": 8000},
            ]),
        ),
        (
            "{cniType: ib-sriov, enableCoordinator: false, ibsriov: {resourceName: a.io/ib, pkey: '0x8001', linkState: auto}}",
            json!([{
                "type": "ib-sriov", "pkey": "0x8001", "link_state": "auto", "rdmaIsolation": true,
                "ibKubernetesEnabled": false, "ipam": ipam,
            }]),
        ),
        (
            "{cniType: ipoib, disableIPAM: true, ipoib: {master: ibp1s0}}",
            json!([{"type": "ipoib", "master": "ibp1s0"}, coordinator()]),
        ),
        (
            "{cniType: ovs, enableCoordinator: false, ovs: {bridge: br0, vlan: 5, deviceID: '0000:af:00.2', trunk: [{minID: 1, maxID: 9}, {id: 20}]}}",
            json!([{
                "type": "ovs", "bridge": "br0", "vlan": 5, "deviceID": "0000:af:00.2",
                "trunk": [{"minID": 1, "maxID": 9}, {"id": 20}], "ipam": ipam,
            }]),
        ),
    ] {
        assert_eq!(plugins(spec), expected, "{spec}");
    }
    let custom = document("{cniType: custom, customCNI: '{\"type\": \"bridge\"}', enableCoordinator: true}");
    assert_eq!(rendered(&custom, Target::Spiderpool).config.unwrap(), "{\"type\": \"bridge\"}");
    assert_eq!(rendered(&document("{}"), Target::Spiderpool).config, None);
}

#[test]
fn devices_of_a_resource_are_requested_by_annotation() {
    let resource = |spec: &str| {
        let network = rendered(&document(spec), Target::Spiderpool);
        network.annotations.get("k8s.v1.cni.cncf.io/resourceName").cloned()
    };
    assert_eq!(resource("{cniType: ib-sriov, ibsriov: {resourceName: a.io/ib}}").as_deref(), Some("a.io/ib"));
    let ovs = "{cniType: ovs, ovs: {bridge: br0, deviceID: '0000:af:00.2'}}";
    assert_eq!(resource(ovs).as_deref(), Some("ovs-cni.network.kubevirt.io/br0"));
    assert_eq!(resource("{cniType: ovs, ovs: {bridge: br0}}"), None);
    // Spiderpool's webhook for pods uses it, Multus does not.
    assert_eq!(resource("{cniType: macvlan, macvlan: {master: [p0], rdmaResourceName: a.io/b}}"), None);
}

#[test]
fn annotations_set_names_and_version_and_are_kept() {
    let text = "
kind: SpiderMultusConfig
metadata:
  name: a
  annotations:
    multus.spidernet.io/cr-name: network
    multus.spidernet.io/cni-version: 1.0.0
    cni.spidernet.io/cniconfig-name: config
    kubectl.kubernetes.io/last-applied-configuration: '{}'
spec: {cniType: ipoib, ipoib: {master: ib0}}
";
    let network = rendered(text, Target::Spiderpool);
    let configuration = configuration(text, Target::Spiderpool);
    assert_eq!((network.name.as_str(), &configuration["name"]), ("network", &json!("config")));
    assert_eq!(configuration["cniVersion"], "1.0.0");
    let kept: Vec<_> = network.annotations.keys().map(String::as_str).collect();
    let expected =
        ["cni.spidernet.io/cniconfig-name", "multus.spidernet.io/cni-version", "multus.spidernet.io/cr-name"];
    assert_eq!(kept, expected);
}

/// An object as the API server returns it: the webhook has filled what was not set.
#[test]
fn an_object_of_a_cluster_is_rendered() {
    let text = r#"{"apiVersion": "v1", "kind": "List", "items": [{
      "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
      "metadata": {
        "annotations": {}, "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1, "name": "rail0",
        "namespace": "kube-system", "resourceVersion": "7", "uid": "5d3f", "labels": {"a": "b"}, "managedFields": [{}]
      },
      "spec": {
        "chainCNIJsonData": [], "cniType": "sriov", "disableIPAM": false, "enableCoordinator": true, "customCNI": "",
        "coordinator": {
          "hijackCIDR": [], "hostRuleTable": 500, "mode": "auto", "podDefaultRouteNIC": "", "podMACPrefix": "",
          "podRPFilter": 0, "tunePodRoutes": true, "txQueueLen": 0, "vethMTU": 1500, "policyRoutes": null
        },
        "sriov": {
          "maxTxRateMbps": 0, "minTxRateMbps": 0, "mtu": 0, "rdmaIsolation": true, "resourceName": "a.io/vf", "vlanID": 0,
          "ippools": {"ipv4": ["a"], "ipv6": [], "matchMasterSubnet": false}
        }
      }
    }]}"#;
    let network = rendered(text, Target::Silkrail);
    assert_eq!((network.annotations.len(), network.remarks.len()), (1, 1), "{network:?}");
    let mut coordinator = coordinator();
    coordinator["vethMTU"] = 1500.into();
    let sriov = json!({
        "type": "sriov", "vlan": 0, "min_tx_rate": 0, "max_tx_rate": 0,
        "ipam": {"type": "spiderpool", "default_ipv4_ippool": ["a"]},
    });
    let plugins = json!([sriov, {"type": "rdma"}, coordinator]);
    assert_eq!(configuration(text, Target::Spiderpool)["plugins"], plugins);
}

#[test]
fn the_yaml_has_the_same_object_as_the_json() {
    let odd = "metadata: {name: 'yes', annotations: {'a: b': \"1\\n# 2\"}}\nkind: SpiderMultusConfig\nspec: ";
    // Some parsers end a line at these, after which a document could go on as it likes.
    let separators = "{cniType: custom, customCNI: '{\"a\": \"\u{2028}kind: Secret\u{85}\u{2029}\"}'}";
    let custom = "{cniType: custom, customCNI: \" {}\\n\\t\"}";
    for text in [
        MACVLAN.to_owned(),
        SRIOV.to_owned(),
        format!("{odd}{{}}"),
        format!("{odd}{custom}"),
        format!("{odd}{separators}"),
    ] {
        for target in [Target::Spiderpool, Target::Silkrail] {
            let network = rendered(&text, target);
            let yaml = network.yaml();
            assert!(!yaml.contains(['\u{2028}', '\u{2029}', '\u{85}', '\u{7f}']), "{yaml:?}");
            assert_eq!(yaml::documents(&yaml).unwrap(), [network.object()], "{yaml}");
        }
    }
}

#[test]
fn an_invalid_document_is_refused_with_its_object_and_key() {
    for (spec, expected) in [
        ("{cniType: bridge}", "spec.cniType: expected one of macvlan, ipvlan, vlan"),
        ("{cniType: macvlan}", "spec.macvlan: it is missing; cniType is macvlan"),
        ("{cniType: macvlan, macvlan: {master: []}}", "spec.macvlan.master: expected at least one link"),
        ("{cniType: macvlan, macvlan: {master: ['a b']}}", "spec.macvlan.master: \"a b\""),
        (
            "{cniType: macvlan, macvlan: {master: [a, b]}}",
            "spec.macvlan.bond: it is missing; master has 2 links",
        ),
        (
            "{cniType: macvlan, macvlan: {master: [a, b], bond: {mode: 1}}}",
            "spec.macvlan.bond.name: it is missing",
        ),
        (
            "{cniType: macvlan, macvlan: {master: [a], vlanID: 4095}}",
            "spec.macvlan.vlanID: expected a number from 0 to 4094, found 4095",
        ),
        (
            "{cniType: macvlan, macvlan: {master: [a]}, sriov: {}}",
            "spec.sriov: it must be absent, because cniType is macvlan",
        ),
        ("{cniType: macvlan, macvlan: {masters: [a]}}", "spec.macvlan.master: expected at least one link"),
        (
            "{cniType: macvlan, macvlan: {master: [a], mut: 1}}",
            "spec.macvlan.mut: unknown key, expected one of bond",
        ),
        (
            "{cniType: ipvlan, ipvlan: {master: [a], ippools: {matchMasterSubnet: true}}}",
            "spec.ipvlan.ippools.matchMasterSubnet: only a network with cniType sriov",
        ),
        ("{cniType: vlan, vlan: {master: [a]}}", "spec.vlan.vlanID: it is missing; vlanMode is manual"),
        (
            "{cniType: vlan, vlan: {master: [a], vlanMode: auto, vlanID: 1}}",
            "spec.vlan.vlanID: it must be absent",
        ),
        ("{cniType: sriov, sriov: {}}", "spec.sriov.resourceName: it is missing"),
        (
            "{cniType: sriov, sriov: {resourceName: a, minTxRateMbps: 2, maxTxRateMbps: 1}}",
            "spec.sriov.minTxRateMbps: 2 is more than maxTxRateMbps, 1",
        ),
        (
            "{cniType: ib-sriov, ibsriov: {resourceName: a, linkState: up}}",
            "spec.ibsriov.linkState: expected one of enable",
        ),
        (
            "{cniType: ovs, ovs: {bridge: b, trunk: [{minID: 2, maxID: 1}]}}",
            "spec.ovs.trunk[0].minID: 2 is more than maxID, 1",
        ),
        ("{cniType: custom, customCNI: '{'}", "spec.customCNI: expected JSON"),
        (
            "{cniType: ipoib, ipoib: {master: a}, chainCNIJsonData: ['{}']}",
            "spec.chainCNIJsonData: type is missing in {}",
        ),
        (
            "{cniType: ipoib, ipoib: {master: a}, coordinator: {mode: x}}",
            "spec.coordinator.mode: expected one of auto",
        ),
    ] {
        let text = refusal(spec);
        assert!(
            text.starts_with("SpiderMultusConfig kube-system/rail0: ") && text.contains(expected),
            "{spec}: {text}"
        );
    }
    for (metadata, expected) in [
        ("{}", "metadata.name: it is missing"),
        (
            "{name: a, annotations: {multus.spidernet.io/cni-version: 2.0.0}}",
            "expected one of 0.3.0, 0.3.1, 0.4.0, 1.0.0",
        ),
        ("{name: a, annotations: {multus.spidernet.io/cr-name: ''}}", "cr-name: expected a name"),
        ("{name: a, namespace: 7}", "metadata.namespace: expected a string, found 7"),
        ("{name: a, annotations: []}", "metadata.annotations: expected a mapping"),
    ] {
        let text = format!("kind: SpiderMultusConfig\nmetadata: {metadata}\nspec: {{}}\n");
        let error = SpiderMultusConfigs::parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn every_type_is_found_by_its_name() {
    for kind in CniType::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
}
