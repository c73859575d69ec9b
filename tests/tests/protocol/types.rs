//! Every key with values of every wrong type: one error that names the key and the value.

use serde_json::{Value, json};
use testkit::Call;

use crate::{Desk, valid};

/// What a key's value should be.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Number,
    Flag,
    Object,
    Texts,
    Objects,
}

const COMMON: [(&str, Is); 8] = [
    ("cniVersion", Is::Text),
    ("name", Is::Text),
    ("ipam", Is::Object),
    ("ipam/type", Is::Text),
    ("stateDir", Is::Text),
    ("logLevel", Is::Text),
    ("logFile", Is::Text),
    ("dns", Is::Object),
];

const LINKS: [(&str, Is); 11] = [
    ("master", Is::Text),
    ("mode", Is::Text),
    ("mtu", Is::Number),
    ("linkInContainer", Is::Flag),
    ("rdma", Is::Object),
    ("rdma/require", Is::Flag),
    ("rdma/timeoutMs", Is::Number),
    ("dns/nameservers", Is::Texts),
    ("dns/domain", Is::Text),
    ("dns/search", Is::Texts),
    ("dns/options", Is::Texts),
];

const MACVLAN: [(&str, Is); 4] = [
    ("mac", Is::Text),
    ("bcqueuelen", Is::Number),
    ("runtimeConfig", Is::Object),
    ("runtimeConfig/mac", Is::Text),
];

const IPVLAN: [(&str, Is); 6] = [
    ("prevResult", Is::Object),
    ("prevResult/cniVersion", Is::Text),
    ("prevResult/interfaces", Is::Objects),
    ("prevResult/ips", Is::Objects),
    ("prevResult/routes", Is::Objects),
    ("prevResult/dns", Is::Object),
];

const SRIOV: [(&str, Is); 13] = [
    ("deviceID", Is::Text),
    ("vlan", Is::Number),
    ("vlanQoS", Is::Number),
    ("vlanProto", Is::Text),
    ("mac", Is::Text),
    ("mtu", Is::Number),
    ("min_tx_rate", Is::Number),
    ("max_tx_rate", Is::Number),
    ("spoofchk", Is::Text),
    ("trust", Is::Text),
    ("link_state", Is::Text),
    ("runtimeConfig", Is::Object),
    ("runtimeConfig/mac", Is::Text),
];

const IPAM: [(&str, Is); 19] = [
    ("ipam/pools", Is::Objects),
    ("ipam/pools/0/name", Is::Text),
    ("ipam/pools/0/subnet", Is::Text),
    ("ipam/pools/0/ips", Is::Texts),
    ("ipam/pools/0/excludeIPs", Is::Texts),
    ("ipam/pools/0/gateway", Is::Text),
    ("ipam/pools/0/routes", Is::Objects),
    ("ipam/pools/0/disable", Is::Flag),
    ("ipam/pools/0/default", Is::Flag),
    ("ipam/pools/0/ipVersion", Is::Number),
    ("ipam/pools/0/nodeName", Is::Texts),
    ("ipam/pools/0/namespaceName", Is::Texts),
    ("ipam/pools/0/multusName", Is::Texts),
    ("ipam/default_ipv4_ippool", Is::Texts),
    ("ipam/default_ipv6_ippool", Is::Texts),
    ("ipam/clean_gateway", Is::Flag),
    ("ipam/match_master_subnet", Is::Flag),
    ("ipam/poolsDir", Is::Text),
    ("ipam/nodeName", Is::Text),
];

/// What Go marshals as `null` where it has nothing, though no plugin here reads it as a value of its own.
const OBJECTS: [(&str, Is); 6] = [
    ("args", Is::Object),
    ("args/cni", Is::Object),
    ("capabilities", Is::Object),
    ("runtimeConfig", Is::Object),
    ("runtimeConfig/ips", Is::Texts),
    ("prevResult", Is::Object),
];

#[test]
fn macvlan_names_key_and_value_of_a_wrong_type() {
    let desk = Desk::new();
    refuses_wrong_types("macvlan", &desk.call("macvlan"), &[&COMMON[..], &LINKS, &MACVLAN].concat());
    assert!(desk.is_untouched());
}

#[test]
fn ipvlan_names_key_and_value_of_a_wrong_type() {
    let desk = Desk::new();
    refuses_wrong_types("ipvlan", &desk.call("ipvlan"), &[&COMMON[..], &LINKS, &IPVLAN].concat());
    assert!(desk.is_untouched());
}

#[test]
fn sriov_names_key_and_value_of_a_wrong_type() {
    let desk = Desk::new();
    // The IPAM plugin's part is read when it is called, and the result's `dns` is the IPAM plugin's.
    let common = COMMON.iter().filter(|(key, _)| !key.starts_with("ipam") && *key != "dns");
    refuses_wrong_types("sriov", &desk.call("sriov"), &common.chain(&SRIOV).copied().collect::<Vec<_>>());
    assert!(desk.is_untouched());
}

#[test]
fn silkrail_ipam_names_key_and_value_of_a_wrong_type() {
    let desk = Desk::new();
    // An IPAM plugin is called with a whole configuration of which these are not its own.
    let not_its_own = ["ipam/type", "logLevel", "logFile", "dns"];
    let keys: Vec<_> =
        COMMON.iter().chain(&IPAM).filter(|(key, _)| !not_its_own.contains(key)).copied().collect();
    refuses_wrong_types("silkrail-ipam", &desk.call("silkrail-ipam"), &keys);
    assert!(desk.is_untouched());
}

#[test]
fn null_says_what_an_absent_key_says() {
    let desk = Desk::new();
    let tables: [(&str, Vec<(&str, Is)>); 4] = [
        ("macvlan", [&COMMON[..], &LINKS, &MACVLAN, &OBJECTS].concat()),
        ("ipvlan", [&COMMON[..], &LINKS, &IPVLAN, &OBJECTS].concat()),
        ("sriov", [&COMMON[..], &SRIOV, &OBJECTS].concat()),
        ("silkrail-ipam", [&COMMON[..], &IPAM, &OBJECTS].concat()),
    ];
    for (plugin, keys) in tables {
        // Without a stateDir, it would be the machine's own.
        for (path, _) in keys.into_iter().filter(|(path, _)| *path != "stateDir") {
            let (null, absent) = (put(plugin, path, Value::Null), without(plugin, path));
            assert_ne!(null, absent, "{path}");
            for verb in ["ADD", "DEL", "STATUS"] {
                let said = |conf: &Value| desk.call(plugin).conf(conf).verb(verb).stdout;
                assert_eq!(said(&null), said(&absent), "{plugin}: {verb} with {path}");
            }
        }
    }
}

/// Any wrong value, with ADD: exit code 1 and one error object.
fn refuses_wrong_types(plugin: &str, call: &Call, keys: &[(&str, Is)]) {
    for (path, is) in keys {
        for value in wrong(*is) {
            println!("{plugin}: {path} = {value}");
            let conf = put(plugin, path, value.clone());
            let refusal = call.clone().conf(&conf).add().refusal();
            let key = path.rsplit('/').next().unwrap();
            // The reading of versions comes first and has codes of its own.
            assert!(matches!(refusal.code, 1 | 6 | 7), "{refusal:?}");
            refusal.says(&[key]);
            assert!(names(&refusal.msg, &value), "value {value}: {refusal:?}");
        }
    }
}

/// Whether a message has the value, or the one item of it that is wrong, however it is quoted.
fn names(msg: &str, value: &Value) -> bool {
    let bare = |text: &str| text.replace(['"', '\\'], "");
    let item = value.as_array().and_then(|list| list.first()).unwrap_or(value);
    [value, item].iter().any(|value| bare(msg).contains(&bare(&value.to_string())))
}

/// Values of another type. `null` is none: it is the same as absent.
fn wrong(is: Is) -> Vec<Value> {
    match is {
        Is::Text => vec![json!(7), json!(true), json!(["a"]), json!({"a": 1})],
        Is::Number => vec![json!("7"), json!(1.5), json!(1e30), json!(true), json!([7]), json!({"a": 1})],
        Is::Flag => vec![json!("true"), json!(1), json!([true]), json!({"a": 1})],
        Is::Object => vec![json!("a"), json!(7), json!(true), json!(["a"])],
        Is::Texts => vec![json!("a"), json!(7), json!([7]), json!({"a": 1})],
        Is::Objects => vec![json!("a"), json!(7), json!(["a"]), json!({"a": 1})],
    }
}

/// The valid configuration with a value at a path, and what the value needs to be looked at.
fn put(plugin: &str, path: &str, value: Value) -> Value {
    let mut conf = valid(plugin);
    if plugin == "sriov" {
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
