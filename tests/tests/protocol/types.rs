//! Every key with values of every wrong type: one error that names the key and the value.

use serde_json::{Value, json};
use testkit::Call;

use crate::{ProtocolFixture, valid};

/// The type of a key's value.
#[derive(Clone, Copy)]
enum ExpectedType {
    Text,
    Number,
    Flag,
    Object,
    Texts,
    Objects,
}

const COMMON: [(&str, ExpectedType); 8] = [
    ("cniVersion", ExpectedType::Text),
    ("name", ExpectedType::Text),
    ("ipam", ExpectedType::Object),
    ("ipam/type", ExpectedType::Text),
    ("stateDir", ExpectedType::Text),
    ("logLevel", ExpectedType::Text),
    ("logFile", ExpectedType::Text),
    ("dns", ExpectedType::Object),
];

const LINKS: [(&str, ExpectedType); 11] = [
    ("master", ExpectedType::Text),
    ("mode", ExpectedType::Text),
    ("mtu", ExpectedType::Number),
    ("linkInContainer", ExpectedType::Flag),
    ("rdma", ExpectedType::Object),
    ("rdma/require", ExpectedType::Flag),
    ("rdma/timeoutMs", ExpectedType::Number),
    ("dns/nameservers", ExpectedType::Texts),
    ("dns/domain", ExpectedType::Text),
    ("dns/search", ExpectedType::Texts),
    ("dns/options", ExpectedType::Texts),
];

const MACVLAN: [(&str, ExpectedType); 4] = [
    ("mac", ExpectedType::Text),
    ("bcqueuelen", ExpectedType::Number),
    ("runtimeConfig", ExpectedType::Object),
    ("runtimeConfig/mac", ExpectedType::Text),
];

const IPVLAN: [(&str, ExpectedType); 6] = [
    ("prevResult", ExpectedType::Object),
    ("prevResult/cniVersion", ExpectedType::Text),
    ("prevResult/interfaces", ExpectedType::Objects),
    ("prevResult/ips", ExpectedType::Objects),
    ("prevResult/routes", ExpectedType::Objects),
    ("prevResult/dns", ExpectedType::Object),
];

const SRIOV: [(&str, ExpectedType); 13] = [
    ("deviceID", ExpectedType::Text),
    ("vlan", ExpectedType::Number),
    ("vlanQoS", ExpectedType::Number),
    ("vlanProto", ExpectedType::Text),
    ("mac", ExpectedType::Text),
    ("mtu", ExpectedType::Number),
    ("min_tx_rate", ExpectedType::Number),
    ("max_tx_rate", ExpectedType::Number),
    ("spoofchk", ExpectedType::Text),
    ("trust", ExpectedType::Text),
    ("link_state", ExpectedType::Text),
    ("runtimeConfig", ExpectedType::Object),
    ("runtimeConfig/mac", ExpectedType::Text),
];

const IB_SRIOV: [(&str, ExpectedType); 8] = [
    ("deviceID", ExpectedType::Text),
    ("link_state", ExpectedType::Text),
    ("rdmaIsolation", ExpectedType::Flag),
    ("ibKubernetesEnabled", ExpectedType::Flag),
    ("vfioPciMode", ExpectedType::Flag),
    ("runtimeConfig/infinibandGUID", ExpectedType::Text),
    ("args/cni/guid", ExpectedType::Text),
    ("rdma", ExpectedType::Object),
];

const IPAM: [(&str, ExpectedType); 19] = [
    ("ipam/pools", ExpectedType::Objects),
    ("ipam/pools/0/name", ExpectedType::Text),
    ("ipam/pools/0/subnet", ExpectedType::Text),
    ("ipam/pools/0/ips", ExpectedType::Texts),
    ("ipam/pools/0/excludeIPs", ExpectedType::Texts),
    ("ipam/pools/0/gateway", ExpectedType::Text),
    ("ipam/pools/0/routes", ExpectedType::Objects),
    ("ipam/pools/0/disable", ExpectedType::Flag),
    ("ipam/pools/0/default", ExpectedType::Flag),
    ("ipam/pools/0/ipVersion", ExpectedType::Number),
    ("ipam/pools/0/nodeName", ExpectedType::Texts),
    ("ipam/pools/0/namespaceName", ExpectedType::Texts),
    ("ipam/pools/0/multusName", ExpectedType::Texts),
    ("ipam/default_ipv4_ippool", ExpectedType::Texts),
    ("ipam/default_ipv6_ippool", ExpectedType::Texts),
    ("ipam/clean_gateway", ExpectedType::Flag),
    ("ipam/match_master_subnet", ExpectedType::Flag),
    ("ipam/poolsDir", ExpectedType::Text),
    ("ipam/nodeName", ExpectedType::Text),
];

/// Keys that Go marshals as `null` if they are empty, and that no plugin here reads as a separate value.
const OBJECTS: [(&str, ExpectedType); 6] = [
    ("args", ExpectedType::Object),
    ("args/cni", ExpectedType::Object),
    ("capabilities", ExpectedType::Object),
    ("runtimeConfig", ExpectedType::Object),
    ("runtimeConfig/ips", ExpectedType::Texts),
    ("prevResult", ExpectedType::Object),
];

#[test]
fn macvlan_names_key_and_value_of_a_wrong_type() {
    let fixture = ProtocolFixture::new();
    refuses_wrong_types("macvlan", &fixture.call("macvlan"), &[&COMMON[..], &LINKS, &MACVLAN].concat());
    assert!(fixture.is_untouched());
}

#[test]
fn ipvlan_names_key_and_value_of_a_wrong_type() {
    let fixture = ProtocolFixture::new();
    refuses_wrong_types("ipvlan", &fixture.call("ipvlan"), &[&COMMON[..], &LINKS, &IPVLAN].concat());
    assert!(fixture.is_untouched());
}

#[test]
fn sriov_names_key_and_value_of_a_wrong_type() {
    let fixture = ProtocolFixture::new();
    // sriov reads `ipam` when it calls the IPAM plugin, and takes `dns` from its result.
    let common = COMMON.iter().filter(|(key, _)| !key.starts_with("ipam") && *key != "dns");
    refuses_wrong_types("sriov", &fixture.call("sriov"), &common.chain(&SRIOV).copied().collect::<Vec<_>>());
    assert!(fixture.is_untouched());
}

#[test]
fn ib_sriov_names_key_and_value_of_a_wrong_type() {
    let fixture = ProtocolFixture::new();
    let common = COMMON.iter().filter(|(key, _)| !key.starts_with("ipam") && *key != "dns");
    let keys = common.chain(&IB_SRIOV).copied().collect::<Vec<_>>();
    refuses_wrong_types("ib-sriov", &fixture.call("ib-sriov"), &keys);
    assert!(fixture.is_untouched());
}

#[test]
fn ipoib_names_key_and_value_of_a_wrong_type() {
    let fixture = ProtocolFixture::new();
    let links = LINKS.iter().filter(|(key, _)| *key != "mode");
    let keys: Vec<_> = COMMON.iter().chain(links).copied().collect();
    refuses_wrong_types("ipoib", &fixture.call("ipoib"), &keys);
    assert!(fixture.is_untouched());
}

#[test]
fn silkrail_ipam_names_key_and_value_of_a_wrong_type() {
    let fixture = ProtocolFixture::new();
    // An IPAM plugin is called with the whole configuration, and does not read these keys.
    let unread = ["ipam/type", "logLevel", "logFile", "dns"];
    let keys: Vec<_> = COMMON.iter().chain(&IPAM).filter(|(key, _)| !unread.contains(key)).copied().collect();
    refuses_wrong_types("silkrail-ipam", &fixture.call("silkrail-ipam"), &keys);
    assert!(fixture.is_untouched());
}

#[test]
fn null_is_equivalent_to_an_absent_key() {
    let fixture = ProtocolFixture::new();
    let tables: [(&str, Vec<(&str, ExpectedType)>); 6] = [
        ("macvlan", [&COMMON[..], &LINKS, &MACVLAN, &OBJECTS].concat()),
        ("ipvlan", [&COMMON[..], &LINKS, &IPVLAN, &OBJECTS].concat()),
        ("ipoib", [&COMMON[..], &LINKS, &OBJECTS].concat()),
        ("sriov", [&COMMON[..], &SRIOV, &OBJECTS].concat()),
        ("ib-sriov", [&COMMON[..], &IB_SRIOV, &OBJECTS].concat()),
        ("silkrail-ipam", [&COMMON[..], &IPAM, &OBJECTS].concat()),
    ];
    for (plugin, keys) in tables {
        // Without stateDir, the plugin would use the machine's state directory.
        for (path, _) in keys.into_iter().filter(|(path, _)| *path != "stateDir") {
            let (null, absent) = (put(plugin, path, Value::Null), without(plugin, path));
            assert_ne!(null, absent, "{path}");
            for verb in ["ADD", "DEL", "STATUS"] {
                let stdout = |conf: &Value| fixture.call(plugin).conf(conf).verb(verb).stdout;
                assert_eq!(stdout(&null), stdout(&absent), "{plugin}: {verb} with {path}");
            }
        }
    }
}

/// Checks that ADD refuses every value of a wrong type with exit code 1 and one error object.
fn refuses_wrong_types(plugin: &str, call: &Call, keys: &[(&str, ExpectedType)]) {
    for (path, is) in keys {
        for value in wrong_values(*is) {
            println!("{plugin}: {path} = {value}");
            let conf = put(plugin, path, value.clone());
            let refusal = call.clone().conf(&conf).add().refusal();
            let key = path.rsplit('/').next().unwrap();
            // Versions are read first and have their own error codes.
            assert!(matches!(refusal.code, 1 | 6 | 7), "{refusal:?}");
            refusal.says(&[key]);
            assert!(has_value(&refusal.msg, &value), "value {value}: {refusal:?}");
        }
    }
}

/// Whether a message has the value, or its first item, in any quoting.
fn has_value(msg: &str, value: &Value) -> bool {
    let bare = |text: &str| text.replace(['"', '\\'], "");
    let item = value.as_array().and_then(|list| list.first()).unwrap_or(value);
    [value, item].iter().any(|value| bare(msg).contains(&bare(&value.to_string())))
}

/// Values of another type, except `null`, which is equivalent to an absent key.
fn wrong_values(is: ExpectedType) -> Vec<Value> {
    match is {
        ExpectedType::Text => vec![json!(7), json!(true), json!(["a"]), json!({"a": 1})],
        ExpectedType::Number => {
            vec![json!("7"), json!(1.5), json!(1e30), json!(true), json!([7]), json!({"a": 1})]
        }
        ExpectedType::Flag => vec![json!("true"), json!(1), json!([true]), json!({"a": 1})],
        ExpectedType::Object => vec![json!("a"), json!(7), json!(true), json!(["a"])],
        ExpectedType::Texts => vec![json!("a"), json!(7), json!([7]), json!({"a": 1})],
        ExpectedType::Objects => vec![json!("a"), json!(7), json!(["a"]), json!({"a": 1})],
    }
}

/// The valid configuration with a value at a path, and with the keys that make the plugin read it.
fn put(plugin: &str, path: &str, value: Value) -> Value {
    let mut conf = valid(plugin);
    if plugin.ends_with("sriov") {
        conf["deviceID"] = json!("0000:00:00.0");
        conf["vlan"] = json!(7);
    }
    if path == "rdma/timeoutMs" {
        conf["rdma"]["require"] = json!(true);
    }
    let (parent, key) = path.rsplit_once('/').unwrap_or(("", path));
    let parent = parent.split('/').filter(|part| !part.is_empty());
    let mut at = &mut conf;
    for part in parent {
        at = match part.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[part],
        };
    }
    at[key] = value;
    conf
}

/// The same configuration without the key at a path.
fn without(plugin: &str, path: &str) -> Value {
    let mut conf = put(plugin, path, Value::Null);
    let (parent, key) = path.rsplit_once('/').unwrap_or(("", path));
    let pointer = if parent.is_empty() { String::new() } else { format!("/{parent}") };
    conf.pointer_mut(&pointer).unwrap().as_object_mut().unwrap().remove(key);
    conf
}
