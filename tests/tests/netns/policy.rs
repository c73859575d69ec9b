//! The policy of the node, `/etc/silkrail/policy.yaml`: what a network may take.

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::Path,
};

use node_policy::Resource;
use serde_json::{Value, json};
use testkit::{Call, FakeIpam, Observe, Refusal};

use silkrail_tests::rail::{RailNode, merged, pool, pool6};

const POLICY: &str = "/etc/silkrail/policy.yaml";
const TEAM: &str = "IgnoreUnknown=1;K8S_POD_NAMESPACE=team-a;K8S_POD_NAME=job-0";

/// A node with its own `/etc`, and pools in it.
fn node() -> RailNode {
    let rail = RailNode::new();
    rail.node.run("mount", &["-t", "tmpfs", "-o", "mode=755", "tmpfs", "/etc"]);
    fs::create_dir_all("/etc/silkrail/pools.d").unwrap();
    let pools = [pool("v4-a", &["10.7.0.10-10.7.0.20"]), pool6("v6-a", &["fd00:7::10-fd00:7::20"])];
    for pool in pools {
        let name = pool["name"].as_str().unwrap();
        fs::write(format!("/etc/silkrail/pools.d/{name}.yaml"), pool.to_string()).unwrap();
    }
    rail
}

/// Writes the policy with one rule, which allows these lists and the state directory of tests.
fn allow(lists: &Value) {
    let lists = merged(json!({"stateDir": ["/run/silkrail-test/*"]}), lists);
    let rule = json!({"name": "tenants", "namespaces": ["team-*"], "allow": lists});
    write(&format!("version: 1\nrules:\n- {rule}\n"));
}

fn write(text: &str) {
    fs::write(POLICY, text).unwrap();
    fs::set_permissions(POLICY, Permissions::from_mode(0o644)).unwrap();
}

/// Allows everything but the resources of one key.
fn allow_all_but(key: &str) {
    let lists: serde_json::Map<_, _> = Resource::ALL
        .iter()
        .map(|it| it.key())
        .filter(|other| *other != key)
        .map(|key| (key.to_owned(), json!(["*"])))
        .collect();
    write(&format!("version: 1\nrules:\n- {}\n", json!({"name": "most", "allow": lists})));
}

fn ipam_of(keys: &Value) -> Value {
    merged(json!({"type": "silkrail-ipam"}), keys)
}

#[test]
fn a_network_beyond_the_policy_is_refused_before_anything_is_changed() {
    let rail = node();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    allow(&json!({"masters": ["rail*"], "modes": ["bridge"], "ipam": ["fake"]}));
    let before = rail.node.snapshot();
    let call = rail.with_ipam(&ipam).args(TEAM);
    let log = rail.node.log_file("silkrail.log");
    for (key, value) in
        [("mode", json!("passthru")), ("logFile", json!(log)), ("mac", json!("c2:11:22:33:44:55"))]
    {
        let refusal = call.with(key, &value).add().error(104);
        refusal.says(&[
            "is not allowed for pods of the namespace \"team-a\"",
            "the rule \"tenants\"",
            POLICY,
            "line 3",
        ]);
        assert!(refusal.details.contains("nothing was changed"), "{refusal:?}");
    }
    assert!(ipam.verbs().is_empty() && !log.exists());
    // Nor does the DEL after it, or a STATUS about its pod.
    let other = rail.with_ipam(&ipam).args("K8S_POD_NAMESPACE=team-a").with("logFile", &json!(log));
    allow(&json!({"masters": ["rail*"], "modes": ["bridge"]}));
    other.del().done();
    other.status().error(50);
    write("not valid");
    other.del().done();
    assert!(ipam.verbs().is_empty() && !log.exists());
    allow(&json!({"masters": ["rail*"], "modes": ["bridge"], "ipam": ["fake"], "logFile": ["*"]}));
    other.del().done();
    assert!(ipam.verbs() == ["DEL"] && log.exists());
    allow(&json!({"masters": ["rail*"], "modes": ["bridge"], "ipam": ["fake"]}));
    for args in ["", "K8S_POD_NAMESPACE=default"] {
        call.clone().args(args).add().error(104).says(&["no rule of the node's policy is for "]);
    }
    // Nothing that the author of a network writes is the namespace of the pod.
    let forged = json!({"cni": {"K8S_POD_NAMESPACE": "team-a"}, "K8S_POD_NAMESPACE": "team-a"});
    call.clone().args("K8S_POD_NAMESPACE=default").with("args", &forged).add().error(104);
    rail.node.snapshot().assert_is(&before);

    let result = call.add().ok();
    write("version: 1\nrules:\n- {name: none, deny: maintenance}\n");
    call.clone().container("b").ifname("net2").add().error(104).says(&["maintenance", "line 3"]);
    call.check_after(&result).done();
    call.with("cni.dev/valid-attachments", &json!([{"containerID": "c0ffee", "ifname": "net1"}])).gc().done();
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_policy_that_cannot_be_used_refuses_every_add_and_status_reports_it() {
    let rail = node();
    let before = rail.node.snapshot();
    let call = rail.layer_2(&json!({})).args(TEAM);
    let result = call.add().ok();
    let other = call.clone().container("b").ifname("net2");
    let directory = Path::new(POLICY).parent().unwrap();
    let refuses = |code: u64, says: &[&str]| {
        let refusal = other.add().error(code);
        refusal.says(says);
        assert!(refusal.details.starts_with("no pod gets a network until "), "{refusal:?}");
        let status: Refusal = other.status().error(50);
        assert_eq!((status.msg, status.details), (refusal.msg, refusal.details));
    };
    allow(&json!({"masters": ["*"], "modes": ["*"]}));
    chown(POLICY, Some(1000), None).unwrap();
    refuses(5, &[POLICY, "owned by user 1000"]);
    chown(POLICY, Some(0), None).unwrap();
    for path in [Path::new(POLICY), directory, Path::new("/etc")] {
        let former = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        refuses(5, &[&format!("{}: owned by user 0 with mode 777", path.display())]);
        fs::set_permissions(path, former).unwrap();
    }
    write("version: 1\nrules:\n- name: a\n  allow: {master: [rail0]}\n");
    refuses(7, &[POLICY, "line 4", "rules[0].allow.master: unknown key"]);
    write("version: 1\nrules: [\n");
    refuses(7, &[POLICY, "line "]);
    write("");
    refuses(7, &[POLICY, "expected the keys version and rules"]);
    fs::remove_file(POLICY).unwrap();
    symlink("missing", POLICY).unwrap();
    refuses(5, &[POLICY, "not a regular file"]);
    // It is for new attachments only.
    call.check_after(&result).done();
    call.del().done();
    other.del().done();
    rail.node.snapshot().assert_is(&before);
}

/// A key of a plugin that names something of the node, and a configuration with it. `None`: only with InfiniBand.
type CoveredKey = (&'static str, &'static str, &'static str, Option<Value>);

fn covered() -> Vec<CoveredKey> {
    let vf = |keys: Value| Some(merged(json!({"deviceID": "0000:af:00.2"}), &keys));
    let layer_2 = |keys: Value| Some(merged(json!({"master": "rail0"}), &keys));
    let ipam = |keys: Value| Some(json!({"ipam": ipam_of(&keys)}));
    let guid = "02:00:00:00:00:00:00:01";
    vec![
        ("macvlan", "master", "masters", layer_2(json!({}))),
        ("macvlan", "master", "masters", Some(json!({"master": "rail0-altname"}))),
        ("macvlan", "mode", "modes", layer_2(json!({}))),
        ("macvlan", "mac", "macs", layer_2(json!({"mac": "c2:11:22:33:44:55"}))),
        (
            "macvlan",
            "runtimeConfig.mac",
            "macs",
            layer_2(json!({"runtimeConfig": {"mac": "c2:11:22:33:44:55"}})),
        ),
        ("macvlan", "bcqueuelen", "bcqueuelen", layer_2(json!({"bcqueuelen": 100}))),
        ("macvlan", "stateDir", "stateDir", layer_2(json!({}))),
        ("macvlan", "logFile", "logFile", layer_2(json!({"logFile": "/var/log/silkrail.log"}))),
        ("macvlan", "ipam", "ipam", layer_2(json!({"ipam": {"type": "fake"}}))),
        (
            "macvlan",
            "ipam",
            "pools",
            layer_2(json!({"ipam": ipam_of(&json!({"default_ipv4_ippool": ["v4-a"]}))})),
        ),
        ("ipvlan", "master", "masters", layer_2(json!({}))),
        ("ipvlan", "mode", "modes", layer_2(json!({"mode": "l3"}))),
        (
            "ipvlan",
            "prevResult",
            "pools",
            layer_2(json!({"prevResult": {"cniVersion": "1.1.0", "ips": [{"address": "10.7.0.10/24"}]}})),
        ),
        ("ipoib", "master", "masters", None),
        ("ipoib", "pkey", "pkeys", None),
        ("sriov", "deviceID", "devices", vf(json!({}))),
        (
            "sriov",
            "runtimeConfig.deviceID",
            "devices",
            Some(json!({"runtimeConfig": {"deviceID": "0000:af:00.2"}})),
        ),
        ("sriov", "vlan", "vlans", vf(json!({"vlan": 0}))),
        ("sriov", "vlanQoS", "vlanQoS", vf(json!({"vlan": 7, "vlanQoS": 3}))),
        ("sriov", "mac", "macs", vf(json!({"mac": "c2:11:22:33:44:55"}))),
        ("sriov", "min_tx_rate", "min_tx_rate", vf(json!({"min_tx_rate": 100}))),
        ("sriov", "max_tx_rate", "max_tx_rate", vf(json!({"min_tx_rate": 100}))),
        ("sriov", "spoofchk", "spoofchk", vf(json!({"spoofchk": "off"}))),
        ("sriov", "trust", "trust", vf(json!({"trust": "on"}))),
        ("sriov", "link_state", "link_state", vf(json!({"link_state": "enable"}))),
        ("ib-sriov", "deviceID", "devices", vf(json!({}))),
        (
            "ib-sriov",
            "runtimeConfig.infinibandGUID",
            "guids",
            vf(json!({"runtimeConfig": {"infinibandGUID": guid}})),
        ),
        ("ib-sriov", "args.cni.guid", "guids", vf(json!({"args": {"cni": {"guid": guid}}}))),
        ("ib-sriov", "link_state", "link_state", vf(json!({"link_state": "disable"}))),
        ("rdma", "deviceID", "devices", vf(json!({}))),
        ("rdma", "rdma.allowPf", "allowPf", vf(json!({"rdma": {"allowPf": true}}))),
        (
            "rdma",
            "prevResult",
            "devices",
            Some(
                json!({"prevResult": {"cniVersion": "1.1.0", "interfaces": [{"name": "net1", "pciID": "0000:af:00.2"}]}}),
            ),
        ),
        ("ifacer", "interfaces", "masters", Some(json!({"interfaces": ["rail0"], "vlanID": 7}))),
        ("ifacer", "vlanID", "vlans", Some(json!({"interfaces": ["rail0"], "vlanID": 7}))),
        ("ifacer", "bond", "modes", Some(json!({"interfaces": ["rail0", "lo"], "bond": {}}))),
        (
            "ifacer",
            "bond.name",
            "masters",
            Some(json!({"interfaces": ["rail0", "lo"], "bond": {"name": "bond7"}})),
        ),
        ("silkrail-ipam", "default_ipv4_ippool", "pools", ipam(json!({"default_ipv4_ippool": ["v4-*"]}))),
        ("silkrail-ipam", "default_ipv6_ippool", "pools", ipam(json!({"default_ipv6_ippool": ["v6-a"]}))),
        ("silkrail-ipam", "pools", "pools", ipam(json!({"pools": [pool("v4-a", &["10.7.0.30"])]}))),
        ("silkrail-ipam", "poolsDir", "pools", ipam(json!({"poolsDir": "/run/silkrail/pools-of-nobody"}))),
        ("silkrail-ipam", "pools_dir", "pools", ipam(json!({"pools_dir": "/run/silkrail/pools-of-nobody"}))),
        ("silkrail-ipam", "store", "pools", ipam(json!({"store": "spiderpool"}))),
        (
            "silkrail-ipam",
            "ipam_unix_socket_path",
            "pools",
            ipam(json!({"store": "spiderpool", "ipam_unix_socket_path": "/run/spidernet/x"})),
        ),
    ]
}

/// The other keys, with the reason why the policy does not cover them.
const NOT_OF_THE_NODE: &[(&str, &str)] = &[
    ("cniVersion name type logLevel dns args.cni.debug", "about the call itself"),
    (
        "rail defaultRoute detectIPConflict mtu rdma.require rdma.timeoutMs clean_gateway",
        "of the pod's link only",
    ),
    ("linkInContainer", "the master is the pod's then"),
    ("vlanProto", "the tag's type; its ID is covered"),
    (
        "rdmaIsolation vfioPciMode ibKubernetesEnabled runtimeConfig.CNIDeviceInfoFile",
        "of the device, which is covered",
    ),
    ("vlanName bond.mode bond.options", "of a new link, whose interfaces are covered"),
    (
        "nodeName multusNamespace match_master_subnet statusFailsWhenFull",
        "which pools match; the matching pools are covered",
    ),
];

/// Returns the keys of a page's table, and those of every plugin.
fn keys_of_page(path: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap();
    let table = text.split("| key | type | default | meaning |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| {
        let cell = row.split('|').nth(1).unwrap();
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn every_key_that_names_something_of_the_node_is_covered() {
    let covered = covered();
    let (mut pages, mut missing) = (BTreeSet::new(), Vec::new());
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
    for kind in ["main", "meta", "ipam"] {
        for directory in fs::read_dir(plugins.join(kind)).unwrap() {
            let plugin = directory.unwrap().file_name().into_string().unwrap();
            pages.insert((plugin.clone(), format!("plugins/{kind}/{plugin}/README.md")));
        }
    }
    let tables = pages.iter().map(|(plugin, page)| (plugin.as_str(), page.as_str()));
    for (plugin, page) in tables.chain([("", "conf/README.md")]) {
        let keys = if plugin.is_empty() { common_keys() } else { keys_of_page(page) };
        assert!(keys.len() > 2, "{page}: {keys:?}");
        for key in keys {
            let is = |(of, name, ..): &CoveredKey| (plugin.is_empty() || *of == plugin) && *name == key;
            let is_exempt =
                NOT_OF_THE_NODE.iter().any(|(keys, _)| keys.split(' ').any(|exempt| exempt == key));
            // The pkey of ib-sriov is a key of ib-kubernetes.
            if !covered.iter().any(is) && !is_exempt && (plugin, key.as_str()) != ("ib-sriov", "pkey") {
                missing.push(format!("{plugin} {key}"));
            }
        }
    }
    assert!(missing.is_empty(), "a key needs a ResourceUse, or a reason in NOT_OF_THE_NODE: {missing:?}");
    for plugin in pages.iter().map(|(plugin, _)| plugin) {
        assert!(covered.iter().any(|(of, ..)| of == plugin), "{plugin} takes nothing?");
    }
}

/// The keys that every plugin has.
fn common_keys() -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf/README.md")).unwrap();
    let (_, section) = text.split_once("\n## Keys of every plugin\n").unwrap();
    let rows =
        section.lines().skip_while(|line| !line.starts_with("| `")).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn a_value_of_each_covered_key_is_refused_by_a_policy_without_it() {
    let rail = node();
    rail.node.run_ip("link property add dev rail0 altname rail0-altname");
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let before = rail.node.snapshot();
    let call = |plugin: &str, keys: &Value| -> Call {
        let conf = merged(json!({"cniVersion": "1.1.0", "name": "rail", "type": plugin}), keys);
        rail.node.plugin(plugin).delegates_in(ipam.dir()).conf(&conf).pod(&rail.pod).args(TEAM)
    };
    for (plugin, key, list, keys) in covered() {
        let Some(mut keys) = keys else { continue };
        if plugin == "rdma" && keys["prevResult"].is_null() {
            keys["prevResult"] = json!({"cniVersion": "1.1.0"});
        }
        if plugin == "ipvlan" && key != "prevResult" {
            keys["ipam"] = ipam_of(&json!({"default_ipv4_ippool": ["v4-a"]}));
        }
        allow_all_but(list);
        let refusal = call(plugin, &keys).add().error(104);
        assert!(refusal.msg.starts_with(&format!("{list}: ")), "{plugin} {key}: {refusal:?}");
        rail.node.snapshot().assert_is(&before);
        allow_all_but("");
        let allowed = call(plugin, &keys).add();
        assert!(allowed.status.success() || allowed.refusal().code != 104, "{plugin} {key}: {allowed:?}");
        let _ = call(plugin, &keys).del();
    }
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn the_default_master_is_compared_too() {
    let rail = node();
    allow(&json!({"masters": ["rail1"], "modes": ["bridge"]}));
    rail.node.run_ip("link set rail0 up");
    rail.node.run_ip("address add 10.7.0.1/24 dev rail0");
    rail.node.run_ip("route add default via 10.7.0.254");
    let call = rail.layer_2(&json!({"master": null})).args(TEAM);
    call.add().error(104).says(&["masters: rail0 is not allowed"]);
}

#[test]
fn the_pools_that_an_address_could_come_from_are_compared() {
    let rail = node();
    let mut default = pool("v4-default", &["10.7.0.40-10.7.0.50"]);
    default["default"] = json!(true);
    fs::write("/etc/silkrail/pools.d/default.yaml", default.to_string()).unwrap();
    let call = |keys: Value| rail.macvlan(&json!({"ipam": ipam_of(&keys)})).args(TEAM);
    let node = json!({"masters": ["rail0"], "modes": ["bridge"]});
    let both = |pools: &[&str]| merged(node.clone(), &json!({"pools": pools}));
    allow(&both(&["v4-a"]));
    call(json!({"default_ipv4_ippool": ["v4-a"]})).add().ok();
    call(json!({"default_ipv4_ippool": ["v4-a"]})).del().done();
    call(json!({})).add().error(104).says(&["pools: v4-default is not allowed"]);
    call(json!({"default_ipv4_ippool": ["v4-*"]})).add().error(104).says(&["pools: v4-default"]);
    let inline = json!({"pools": [pool("v4-a", &["10.7.0.99"])]});
    call(inline.clone()).add().error(104).says(&["pools: (inline) is not allowed"]);
    allow(&both(&["(inline)"]));
    for pools in [json!([]), json!([pool("v4-b", &["10.7.0.99"])])] {
        let mixed =
            json!({"pools": pools, "poolsDir": "/etc/silkrail/pools.d", "default_ipv4_ippool": ["v4-a"]});
        call(mixed).add().error(104).says(&["pools: v4-a is not allowed"]);
    }
    call(inline).add().ok();
}

#[test]
fn without_a_policy_an_add_tries_to_open_one_file_and_a_call_in_the_same_process_none() {
    let rail = node();
    let file = rail.node.state_dir().with_file_name("calls");
    let call = rail.macvlan(&json!({})).under(&["strace", "-f", "-o", file.to_str().unwrap()]);
    call.add().ok();
    let text = fs::read_to_string(&file).unwrap();
    let about: Vec<_> = text.lines().filter(|line| line.contains("/etc/silkrail")).collect();
    assert!(about.len() == 1 && about[0].contains(POLICY) && about[0].contains("ENOENT"), "{about:#?}");
    call.del().done();
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(POLICY), "a DEL does not need it");
}
