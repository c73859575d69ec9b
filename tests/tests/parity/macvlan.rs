//! macvlan: every key, every variable and every state that the Go plugin distinguishes.

use serde_json::{Value, json};
use silkrail_tests::{
    parity::{Case, Comparison, Step},
    rail::VERSIONS,
};
use testkit::Share;

fn case(name: &'static str, conf: Value) -> Case {
    Case::new("macvlan", name, conf)
}

const ADD: Step = Step::Call("ADD");
const CHECK: Step = Step::Call("CHECK");
const DEL: Step = Step::Call("DEL");

fn versions() -> Vec<Case> {
    let case_of = |version: &'static str| case(version, json!({"cniVersion": version}));
    let mut cases: Vec<_> = VERSIONS.map(case_of).to_vec();
    cases.push(case("9.9.9", json!({"cniVersion": "9.9.9"})));
    cases.push(case("no version", json!({"cniVersion": null})));
    cases
}

fn modes() -> Vec<Case> {
    ["bridge", "private", "vepa", "passthru", "source", "Bridge", ""]
        .map(|mode| Case {
            name: if mode.is_empty() { "empty mode" } else { mode },
            ..case("", json!({"mode": mode}))
        })
        .to_vec()
}

fn mtus() -> Vec<Case> {
    vec![
        case("mtu 0", json!({"mtu": 0})),
        case("mtu 1400", json!({"mtu": 1400})),
        case("mtu of the master", json!({"mtu": 1500})),
        case("mtu above the master's", json!({"mtu": 1501})),
        case("mtu -1", json!({"mtu": -1})),
        case("mtu as a text", json!({"mtu": "1400"})),
        case("mtu 60", json!({"mtu": 60})),
    ]
}

fn macs() -> Vec<Case> {
    let mac = "c2:00:00:00:00:07";
    let with = |name, conf: Value| case(name, conf);
    vec![
        with("mac", json!({"mac": mac})),
        with("mac in capitals", json!({"mac": "C2-00-00-00-00-0A"})),
        with("runtimeConfig.mac", json!({"mac": "c2:00:00:00:00:08", "runtimeConfig": {"mac": mac}})),
        with("args.cni.mac", json!({"args": {"cni": {"mac": mac}}})),
        with("MAC in CNI_ARGS", json!({})).env("CNI_ARGS", Some("MAC=c2:00:00:00:00:07")),
        with("MAC in CNI_ARGS and in mac", json!({"mac": "c2:00:00:00:00:08"}))
            .env("CNI_ARGS", Some("IgnoreUnknown=1;MAC=c2:00:00:00:00:07;K8S_POD_NAME=a")),
        with("invalid mac", json!({"mac": "c2:00"})),
        with("multicast mac", json!({"mac": "01:00:5e:00:00:01"})),
        with("zero mac", json!({"mac": "00:00:00:00:00:00"})),
        with("mac of 8 bytes", json!({"mac": "c2:00:00:00:00:07:00:01"})),
    ]
}

fn masters() -> Vec<Case> {
    let default_route = Step::OnNode("route add default via 10.8.0.1 dev rail0 onlink");
    vec![
        case("no master, no default route", json!({"master": null})),
        case("no master, a default route", json!({"master": null})).steps(&[default_route, ADD, CHECK, DEL]),
        case("empty master", json!({"master": ""})),
        case("unknown master", json!({"master": "gone0"})),
        case("master by its altname", json!({"master": "enp1s0"})).steps(&[
            Step::OnNode("link property add dev rail0 altname enp1s0"),
            ADD,
            CHECK,
            DEL,
        ]),
        case("lo as master", json!({"master": "lo"})),
        case("master is down", json!({})).steps(&[Step::OnNode("link set rail0 down"), ADD, CHECK, DEL]),
        case("key in capitals", json!({"master": null, "MASTER": "rail0", "Mode": "private", "MTU": 1400})),
        case("null keys", json!({"mode": Value::Null, "dns": {}, "args": {}, "runtimeConfig": {}})),
        case("unknown keys", json!({"vlan": 5, "promiscMode": true, "x": {"y": [1]}})),
    ]
}

fn ipams() -> Vec<Case> {
    let fixed = |more: Value| {
        let mut ipam = json!({"type": "static", "addresses": [{"address": "10.7.0.9/24"}]});
        ipam.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"ipam": ipam})
    };
    let ips = |version| {
        let addresses = json!([{"address": "10.7.0.9/24"}]);
        json!({"cniVersion": version, "ipam": {}, "addresses": addresses})
    };
    vec![
        case("no ipam", json!({"ipam": null})),
        case("empty ipam", json!({"ipam": {}})),
        case("empty ipam type", json!({"ipam": {"type": ""}})),
        case("no ipam, version 0.2.0", ips("0.2.0")),
        case("static", fixed(json!({}))),
        case(
            "static, a gateway",
            fixed(json!({"addresses": [{"address": "10.7.0.9/24", "gateway": "10.7.0.1"}]})),
        ),
        case(
            "static, two of a family",
            fixed(json!({"addresses": [{"address": "10.7.0.9/24"}, {"address": "10.7.0.8/25"}]})),
        ),
        case(
            "static, a host address",
            fixed(json!({"addresses": [{"address": "10.7.0.9/32"}, {"address": "fd00:7::9/128"}]})),
        ),
        case("static, a default route", fixed(json!({"routes": [{"dst": "0.0.0.0/0", "gw": "10.7.0.1"}]}))),
        case("static, a route without a gateway", fixed(json!({"routes": [{"dst": "10.9.0.0/16"}]}))),
        case(
            "static, an unreachable gateway",
            fixed(json!({"routes": [{"dst": "10.9.0.0/16", "gw": "10.99.0.1"}]})),
        ),
        case(
            "static, a route twice",
            fixed(json!({"routes": [
            {"dst": "10.9.0.0/16", "gw": "10.7.0.1"}, {"dst": "10.9.0.0/16", "gw": "10.7.0.2"}]})),
        ),
        case("static, dns", fixed(json!({"dns": {"nameservers": ["10.7.0.3"]}}))),
        case("static, no addresses", fixed(json!({"addresses": []}))),
        case(
            "dns",
            json!({"dns": {"nameservers": ["10.7.0.3"], "domain": "a", "search": ["b"], "options": ["c"]}}),
        ),
        case("unknown ipam plugin", json!({"ipam": {"type": "nonexistent"}})),
        case("ipam type with a slash", json!({"ipam": {"type": "../static"}})),
        case("no free address", json!({})).steps(&[ADD, ADD]).env("CNI_CONTAINERID", Some("c1")),
    ]
}

fn calls() -> Vec<Case> {
    let all = |name| case(name, json!({}));
    vec![
        all("VERSION").steps(&[Step::Call("VERSION")]),
        all("unknown command").steps(&[Step::Call("FROB")]),
        all("GC and STATUS").steps(&[Step::Call("GC"), Step::Call("STATUS")]),
        all("ADD twice").steps(&[ADD, ADD, DEL]),
        all("interface name in use").steps(&[Step::InPod("link add net1 type bridge"), ADD]),
        all("DEL without ADD").steps(&[DEL]),
        all("DEL of another link").steps(&[Step::InPod("link add net1 type bridge"), DEL]),
        all("CHECK without ADD").steps(&[CHECK]),
        all("CHECK without the link").steps(&[ADD, Step::InPod("link delete net1"), CHECK, DEL]),
        all("CHECK of a link that is down").steps(&[ADD, Step::InPod("link set net1 down"), CHECK, DEL]),
        all("CHECK without the address").steps(&[ADD, Step::InPod("address flush dev net1"), CHECK, DEL]),
        all("CHECK with another address").steps(&[
            ADD,
            Step::InPod("address add 10.7.0.77/24 dev net1"),
            CHECK,
            DEL,
        ]),
        all("CHECK with another mac").steps(&[
            ADD,
            Step::InPod("link set net1 address c2:00:00:00:00:55"),
            CHECK,
            DEL,
        ]),
        all("CHECK without the route").steps(&[ADD, Step::InPod("route delete 10.9.0.0/16"), CHECK, DEL]),
        all("no CNI_NETNS").env("CNI_NETNS", None),
        all("empty CNI_NETNS").env("CNI_NETNS", Some("")),
        all("unknown CNI_NETNS").env("CNI_NETNS", Some("/run/silkrail-test/netns/gone")),
        all("CNI_NETNS is no namespace").env("CNI_NETNS", Some("/etc/passwd")),
        all("no CNI_CONTAINERID").env("CNI_CONTAINERID", None),
        all("invalid CNI_CONTAINERID").env("CNI_CONTAINERID", Some("a/b")),
        all("no CNI_IFNAME").env("CNI_IFNAME", None),
        all("long CNI_IFNAME").env("CNI_IFNAME", Some("a23456789012345x")),
        all("CNI_IFNAME with a slash").env("CNI_IFNAME", Some("a/b")),
        all("CNI_IFNAME with a colon").env("CNI_IFNAME", Some("a:b")),
        all("no CNI_PATH").env("CNI_PATH", None),
        all("unknown CNI_ARGS").env("CNI_ARGS", Some("A=b")),
        all("unknown CNI_ARGS, ignored").env("CNI_ARGS", Some("IgnoreUnknown=TRUE;A=b")),
        all("invalid CNI_ARGS").env("CNI_ARGS", Some("A")),
        case("no name", json!({"name": null})),
        case("invalid name", json!({"name": "a b"})),
        case(
            "a prevResult",
            json!({"prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.8.0.1/24"}]}}),
        ),
        case("an invalid prevResult", json!({"prevResult": {"cniVersion": "1.0.0", "ips": 5}})),
    ]
}

fn assert_on_page(section: &str, cases: &[Case]) {
    let share = Share::of_tests_of(&[
        "plugins/main/macvlan",
        "pkg/child-link",
        "pkg/plugin-runtime",
        "tests/tests/parity",
    ]);
    Comparison::of_share(share, section, cases).assert_on_page("macvlan", section);
}

#[test]
fn every_link_differs_as_the_page_says() {
    Comparison::of(&[case("a link", json!({}))]).assert_has_every_link("macvlan");
}

#[test]
fn versions_differ_as_the_page_says() {
    assert_on_page("versions", &versions());
}

#[test]
fn modes_differ_as_the_page_says() {
    assert_on_page("modes", &modes());
}

#[test]
fn mtus_differ_as_the_page_says() {
    assert_on_page("MTU", &mtus());
}

#[test]
fn mac_addresses_differ_as_the_page_says() {
    assert_on_page("MAC address", &macs());
}

#[test]
fn masters_differ_as_the_page_says() {
    assert_on_page("master and other keys", &masters());
}

#[test]
fn ipam_plugins_differ_as_the_page_says() {
    assert_on_page("IPAM", &ipams());
}

#[test]
fn calls_differ_as_the_page_says() {
    assert_on_page("calls", &calls());
}
