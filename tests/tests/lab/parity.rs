//! Debian's Go plugin ipvlan next to Silkrail's, as in `tests/tests/parity`: the kernel of the build machine may not support
//! ipvlan.

use serde_json::{Value, json};
use silkrail_tests::parity::{Case, Comparison, Step};
use testkit::Share;

const ADD: Step = Step::Call("ADD");
const CHECK: Step = Step::Call("CHECK");
const DEL: Step = Step::Call("DEL");

/// The calls take seconds in the lab: cases that macvlan has too are in `tests/tests/parity`.
fn case(name: &'static str, conf: Value) -> Case {
    Case::new("ipvlan", name, conf).steps(&[ADD, CHECK, DEL])
}

fn keys() -> Vec<Case> {
    let default_route = Step::OnNode("route add default via 10.8.0.1 dev rail0 onlink");
    vec![
        case("mode l3", json!({"mode": "l3"})),
        case("mode l4", json!({"mode": "l4"})),
        case("mtu above the master's", json!({"mtu": 1501})),
        case("no master, no default route", json!({"master": null})),
        case("no master, a default route", json!({"master": null})).steps(&[default_route, ADD, CHECK, DEL]),
    ]
}

fn chains() -> Vec<Case> {
    let prev = |interfaces: Value, ips: Value| {
        let prev = json!({
            "cniVersion": "1.0.0", "interfaces": interfaces, "ips": ips,
            "routes": [{"dst": "10.9.0.0/16", "gw": "10.8.0.1"}], "dns": {"nameservers": ["10.8.0.3"]},
        });
        json!({"master": null, "ipam": null, "prevResult": prev})
    };
    let address = json!([{"address": "10.8.0.2/24", "interface": 0}]);
    vec![
        case("after a plugin", prev(json!([{"name": "rail0"}]), address.clone())),
        case("after a plugin with two interfaces", prev(json!([{"name": "rail0"}, {"name": "lo"}]), address)),
        case("no ipam", json!({"ipam": {}})),
    ]
}

fn calls() -> Vec<Case> {
    let with = |name, steps: &[Step]| case(name, json!({})).steps(steps);
    vec![with("ADD twice", &[ADD, ADD, DEL]), with("DEL without ADD", &[DEL])]
}

fn assert_on_page(section: &str, cases: &[Case]) {
    let share = Share::of_tests_of(&["plugins/main/ipvlan", "pkg/child-link", "pkg/plugin-runtime"]);
    Comparison::of_share(share, section, cases).assert_on_page("ipvlan", section);
}

#[test]
fn every_ipvlan_link_differs_as_the_page_says() {
    Comparison::of(&[case("a link", json!({}))]).assert_has_every_link("ipvlan");
}

#[test]
fn the_keys_of_ipvlan_differ_as_the_page_says() {
    assert_on_page("keys", &keys());
}

#[test]
fn chains_of_ipvlan_differ_as_the_page_says() {
    assert_on_page("chains", &chains());
}

#[test]
fn calls_of_ipvlan_differ_as_the_page_says() {
    assert_on_page("calls", &calls());
}
