//! Files as their authors write them.

use super::*;
use crate::Selector;

const NODE_A: ReadOptions<'_> = ReadOptions { node: "node-a", resource_prefix: None };

fn findings(text: &str) -> Vec<String> {
    Config::parse(text).unwrap().findings.iter().map(ToString::to_string).collect()
}

#[test]
fn files_of_both_device_plugins_are_read() {
    let text = r#"{ "resourceList": [
 {"resourceName":"mellanoxrdma","resourcePrefix":"spidernet.io",
  "selectors":[{"vendors":["15b3"],"devices":["0x101E"],"pfNames":["ens6f0np0#0-7"],"IsRdma":true,"needVhostNet":false}]},
 {"resourceName":"ib_vf","selectors":{"linkTypes":["infiniband"],"isRdma":true,"pKeys":["0x7fff"], "ddpProfiles": []}},
 {"resourceName":"sf_rdma","deviceType":"auxNetDevice","excludeTopology":true,
  "additionalInfo":{"*":{"rail":"1"}},
  "selectors":[{"rootDevices":["0000:af:00.0#1-4"],"auxTypes":["sf"],"isRdma":true,"needVhostNet":true}]}]}"#;
    let config = Config::parse(text).unwrap();
    assert_eq!(config.findings, []);
    let names: Vec<_> = config.resources.iter().map(|resource| resource.name.to_string()).collect();
    assert_eq!(names, ["spidernet.io/mellanoxrdma", "intel.com/ib_vf", "intel.com/sf_rdma"]);
    let [first, second, third] = &config.resources[..] else { panic!("three resources") };
    let expected = Selector {
        vendors: vec!["15b3".into()],
        devices: vec!["101e".into()],
        pf_names: vec!["ens6f0np0#0-7".parse().unwrap()],
        is_rdma: true,
        ..Selector::default()
    };
    assert_eq!(first.selectors, [expected]);
    assert_eq!((first.mode, first.has_topology), (ResourceMode::Exclusive(ExclusiveType::Network), true));
    assert_eq!(second.selectors[0].pkeys, ["0x7fff".parse().unwrap()]);
    assert_eq!((third.mode, third.has_topology), (ResourceMode::Exclusive(ExclusiveType::Auxiliary), false));
    assert!(third.selectors[0].needs_vhost_net && third.additional_info["*"]["rail"] == "1");
}

#[test]
fn files_of_the_shared_device_plugin_are_read() {
    let text = r#"{ "periodicUpdateInterval": 300, "configList": [
    { "resourceName": "hca_shared_devices_a", "rdmaHcaMax": 1000,
      "selectors": { "vendors": ["15b3"], "deviceIDs": ["1017"], "ifNames": ["ens6f0np0"], "linkTypes": ["ether"] } },
    { "resourceName": "legacy_b", "resourcePrefix": "spidernet.io", "rdmaHcaMax": 500, "devices": ["ib0", "ib1"] } ] }"#;
    let config = Config::parse(text).unwrap();
    assert_eq!(config.findings, []);
    let [first, second] = &config.resources[..] else { panic!("two resources") };
    assert_eq!(
        (first.name.to_string(), first.mode),
        ("rdma/hca_shared_devices_a".into(), ResourceMode::Shared { slots: 1000 })
    );
    assert_eq!((&first.selectors[0].devices, first.selectors[0].is_rdma), (&vec!["1017".to_owned()], true));
    assert_eq!(second.selectors[0].interfaces, ["ib0", "ib1"]);
}

#[test]
fn a_config_map_is_read() {
    let text = "
kind: ConfigMap
data:
  config.json: |
    {\"configList\": [{\"resourceName\": \"a\", \"rdmaHcaMax\": 1, \"selectors\": {\"ifNames\": [\"p0\"], \"x\": 1}}]}
";
    let config = Config::parse(text).unwrap();
    assert_eq!(config.resources[0].name.to_string(), "rdma/a");
    let finding = config.findings[0].to_string();
    assert!(
        finding.starts_with("line 1: data[\"config.json\"]: configList[0].selectors.x: unknown key"),
        "{finding}"
    );
    let error = Config::parse("kind: ConfigMap\ndata: {a: '['}\n").unwrap_err().to_string();
    assert!(error.starts_with("data[\"a\"]: line "), "{error}");
}

/// A ConfigMap with the keys, whose values are a resource with the name of the key, or another text.
fn config_map(name: &str, keys: &[&str], others: &str) -> String {
    let value =
        |key: &&str| format!("  {key}: '{{resourceList: [{{resourceName: {key}, selectors: {{}}}}]}}'\n");
    let values: String = keys.iter().map(value).collect();
    format!("kind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n{values}{others}")
}

/// The operator writes a key for each node (syncDevicePluginConfigMap in controllers/sriovnetworknodepolicy_controller.go of
/// sriov-network-operator), and sriov-network-device-plugin reads that of its node.
#[test]
fn the_key_of_a_config_map_is_that_of_the_node_or_the_only_one() {
    let (text, mapping) = ("  NOTES: ask the network team\n", "  OWNER: 'team: network'\n");
    let (mine, operator) = ("resources", "device-plugin-config");
    let of_no_node = "line 3: data: it has configurations for other nodes and none for node-a: add the key node-a, or keep one";
    let not_used = |key: &str| format!("line 4: data.{key}: it is no configuration");
    for (map, resource, finding) in [
        (config_map(operator, &["node-a", "node-b"], ""), Some("node-a"), None),
        (config_map(mine, &["node-b", "node-a"], text), Some("node-a"), None),
        (config_map(operator, &["node-b", "node-c"], ""), None, Some(of_no_node.to_owned())),
        (config_map(operator, &["node-b"], ""), None, Some(of_no_node.to_owned())),
        (config_map(mine, &["node-b", "node-c"], ""), None, Some(of_no_node.to_owned())),
        (config_map(mine, &["config.json"], ""), Some("config.json"), None),
        (
            config_map(mine, &["x"], text).replace("data:\n", "data:\n\n"),
            Some("x"),
            Some("line 6: data.NOTES: ".into()),
        ),
        (config_map(mine, &[], &format!("{mapping}  x: 'configList: []'\n")), None, Some(not_used("OWNER"))),
    ] {
        let config = Config::with(&map, NODE_A).unwrap();
        let names: Vec<_> = config.resources.iter().map(|resource| resource.name.name()).collect();
        assert_eq!(names, Vec::from_iter(resource), "{map}");
        let found: Vec<_> = config.findings.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), usize::from(finding.is_some()), "{map}{found:?}");
        assert!(finding.is_none_or(|finding| found[0].starts_with(&finding)), "{map}{found:?}");
    }
    let error = Config::with(&config_map(mine, &[], text), NODE_A).unwrap_err().to_string();
    assert!(error.starts_with("data[\"NOTES\"]: expected a mapping"), "{error}");
}

/// Every kind of invalid value, with what is reported.
const INVALID: [(&str, &str); 14] = [
    (
        "resourceName: a/b",
        "line 2: resourceList[0].resourceName: resourceName: \"a.io/a/b\" is not a resource",
    ),
    ("resourceName: 7", "line 2: resourceList[0].resourceName: expected a string, found 7"),
    ("selectors: 7", "line 3: resourceList[0].selectors: expected a list of mappings, found 7"),
    ("selectors: [7]", "line 3: resourceList[0].selectors[0]: expected a mapping, found 7"),
    (
        "selectors: {vendors: 15b3}",
        "line 3: resourceList[0].selectors.vendors: expected a list, found \"15b3\"",
    ),
    (
        "selectors: {pfNames: ['p0#2-1']}",
        "line 3: resourceList[0].selectors.pfNames[0]: \"p0#2-1\" does not select VFs",
    ),
    (
        "selectors: {pfNames: [{}]}",
        "line 3: resourceList[0].selectors.pfNames[0]: expected a string, found {}",
    ),
    ("selectors: {isRdma: 1}", "line 3: resourceList[0].selectors.isRdma: expected true or false, found 1"),
    (
        "selectors: {linkTypes: [eth]}",
        "line 3: resourceList[0].selectors.linkTypes[0]: \"eth\" is not a link type",
    ),
    (
        "selectors: {vdpaType: virtio}",
        "line 3: resourceList[0].selectors.vdpaType: vDPA devices are not supported",
    ),
    ("deviceType: accelerator", "line 4: resourceList[0].deviceType: \"accelerator\" is not supported"),
    ("health: 7", "line 4: resourceList[0].health: expected a mapping, found 7"),
    (
        "health: {port: up}",
        "line 4: resourceList[0].health.port: \"up\" is not supported: expected \"ignore\"",
    ),
    ("additionalInfo: 7", "line 4: resourceList[0].additionalInfo: expected a mapping, found 7"),
];

#[test]
fn an_invalid_resource_is_reported_with_its_line_and_the_others_are_used() {
    for (change, expected) in INVALID {
        let key = change.split_once(':').unwrap().0;
        let line = |name: &str, other: &str| if key == name { change.to_owned() } else { other.to_owned() };
        let text = format!(
            "resourceList:\n  - {}\n    {}\n    {}\n    resourcePrefix: a.io\n  - {{resourceName: b, selectors: {{pfNames: [p0]}}}}\n",
            line("resourceName", "resourceName: a"),
            line("selectors", "selectors: {pfNames: [p0]}"),
            if ["deviceType", "additionalInfo", "health"].contains(&key) {
                change
            } else {
                "excludeTopology: false"
            },
        );
        let config = Config::parse(&text).unwrap();
        let finding = config.findings.first().map(ToString::to_string).unwrap_or_default();
        assert!(finding.starts_with(expected), "{change}: {finding}");
        assert!(finding.ends_with("(the resource is not used)"), "{finding}");
        let names: Vec<_> = config.resources.iter().map(|resource| resource.name.to_string()).collect();
        assert_eq!(names, ["intel.com/b"], "{change}");
    }
}

#[test]
fn each_selector_of_a_resource_must_be_valid() {
    let other = "{drivers: [mlx5_core]}";
    for selector in ["{isRdma: 1}", "{vendors: 7}"]
        .iter()
        .flat_map(|it| [format!("[{it}, {other}]"), format!("[{other}, {it}]")])
    {
        let selectors = selector.as_str();
        let exclusive = format!("resourceList: [{{resourceName: a, selectors: {selectors}}}]");
        let shared = format!("configList: [{{resourceName: a, rdmaHcaMax: 1, selectors: {selectors}}}]");
        assert_eq!(Config::parse(&exclusive).unwrap().resources, [], "{exclusive}");
        // All devices that are shared have RDMA.
        let expected = usize::from(selectors.contains("isRdma"));
        assert_eq!(Config::parse(&shared).unwrap().resources.len(), expected, "{shared}");
    }
}

#[test]
fn unknown_keys_are_reported_and_ignored() {
    let text = "configList:\n- resourceName: a\n  rdmaHcaMax: 1\n  selectors: {ifnames: [p0], deviceIds: ['1017'], vendor: [15b3]}\n  x: 1\ny: 2\n";
    let config = Config::parse(text).unwrap();
    assert_eq!(config.resources[0].selectors[0].devices, ["1017"], "the case of keys does not matter");
    let findings: Vec<_> = config.findings.iter().map(ToString::to_string).collect();
    assert!(
        findings[0].starts_with("line 4: configList[0].selectors.vendor: unknown key, expected one of "),
        "{findings:?}"
    );
    assert!(findings[1].starts_with("line 5: configList[0].x: unknown key"), "{findings:?}");
    assert!(findings[2].starts_with("line 6: y: unknown key"), "{findings:?}");
    assert!(findings.iter().all(|finding| finding.ends_with("(ignored)")));
}

#[test]
fn keys_that_are_required_or_exclude_each_other() {
    let of = |keys: &str| findings(&format!("configList:\n- {{resourceName: a, {keys}}}\n")).join("; ");
    assert!(of("rdmaHcaMax: 1").contains("selectors is missing"));
    assert_eq!(of("rdmaHcaMax: 100000, devices: [p0]"), "");
    assert!(of("rdmaHcaMax: 100001, devices: [p0]").contains("rdmaHcaMax is more than 100000"));
    assert!(of("selectors: {ifNames: [p0]}").contains("rdmaHcaMax is missing"));
    assert!(of("rdmaHcaMax: -1, devices: [p0]").contains("rdmaHcaMax: expected a number from 0, found -1"));
    assert!(
        of("rdmaHcaMax: 1, devices: [p0], selectors: {ifNames: [p0]}").contains("both devices and selectors")
    );
    assert!(findings("resourceList: [{resourceName: a}]").join("").contains("selectors is missing"));
    assert!(
        findings("resourceList: [{selectors: {}}]")
            .join("")
            .contains("resourceName: the name \"\" is invalid")
    );
}

/// As Go reads them.
#[test]
fn null_is_no_value_and_the_key_in_its_own_letters_comes_first() {
    let text = "resourceList: [{resourceName: a, resourcename: b, resourcePrefix: null, deviceType: '', \
                selectors: [{isRdma: null, ddpProfiles: null, vdpaType: ''}, {needVhostNet: true}]}]";
    let config = Config::parse(text).unwrap();
    assert_eq!(config.findings, []);
    let resource = &config.resources[0];
    assert_eq!((resource.name.to_string().as_str(), resource.selectors.len()), ("intel.com/a", 2));
    let needs = |selector: &Selector| selector.needs_vhost_net;
    assert_eq!(resource.selectors.iter().map(needs).collect::<Vec<_>>(), [false, true]);
    let later = Config::parse("resourceList: [{ResourceName: a, resourcename: b, selectors: {}}]").unwrap();
    assert_eq!(later.resources[0].name.name(), "b", "the last of others");
}

#[test]
fn a_second_resource_of_a_name_is_refused() {
    let text = "
resourceList:
- {resourceName: a, resourcePrefix: rdma, selectors: {}}
configList:
- {resourceName: a, rdmaHcaMax: 1, devices: [p0]}
";
    let config = Config::parse(text).unwrap();
    assert_eq!(config.resources.len(), 1);
    let finding = config.findings[0].to_string();
    assert!(
        finding.starts_with(
            "line 5: configList[0].resourceName: the resource rdma/a is already at resourceList[0]"
        ),
        "{finding}"
    );
}

#[test]
fn other_files_are_refused() {
    for (text, expected) in [
        ("", "expected one document, found 0"),
        ("{}\n---\n{}\n", "expected one document, found 2"),
        ("[]", "expected a mapping with resourceList or configList"),
        ("a: [", "line "),
        ("kind: ConfigMap", "expected a mapping with resourceList or configList"),
    ] {
        let error = Config::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn a_node_file_has_a_section_and_the_rails_of_its_pfs() {
    let resource = "{resourceName: vf, selectors: {rails: [0, 2], isRdma: true}}";
    let text = format!(
        "rdmaMode: exclusive\npfs: []\ndevicePlugin:\n  rails: {{ens1f0np0: 0, '0000:AF:00.0': 2}}\n  trafficClass: 106\n  \
         resourceList: [{resource}]\n"
    );
    let config = Config::parse(&text).unwrap();
    assert_eq!(config.findings, []);
    assert_eq!(config.resources[0].selectors[0].rails, [0, 2]);
    let rails = [("0000:af:00.0".to_owned(), 2), ("ens1f0np0".to_owned(), 0)];
    assert_eq!(config.fabric, Fabric { rails: rails.into(), traffic_class: Some(106) });
    assert_eq!(config.resources[0].path, "devicePlugin.resourceList[0]");
    assert_eq!(
        findings("pfs: []\nresourceList: []"),
        ["line 2: resourceList: expected below devicePlugin, as the file is a node file (ignored)"]
    );
    for without in ["rdmaMode: shared", "pfs: []", "devicePlugin:"] {
        let config = Config::parse(without).unwrap();
        assert_eq!((config.resources.len(), config.findings), (0, vec![]), "{without}");
    }
    let wrong = "pfs: []\ndevicePlugin:\n  rails: {p0: x}\n  trafficClass: 256\n  resourceLists: []\n";
    let expected = [
        "line 3: devicePlugin.rails.p0: expected a number from 0 to 4294967295, found \"x\" (ignored)",
        "line 4: devicePlugin.trafficClass: expected a number from 0 to 255, found 256 (ignored)",
        "line 5: devicePlugin.resourceLists: unknown key, expected one of configList, periodicUpdateInterval, rails, \
         resourceList, trafficClass (ignored)",
    ];
    assert_eq!(findings(wrong), expected);
    assert_eq!(
        findings("devicePlugin: []"),
        ["line 1: devicePlugin: expected a mapping, found [] (the resource is not used)"]
    );
}
