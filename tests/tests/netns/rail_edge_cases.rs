//! `rail` with invalid values, in pods that use its table or rule already, and CHECK after changes in the pod.

use serde_json::{Value, json};
use testkit::{FakeIpam, Observe};

use silkrail_tests::rail::{RailNode, ipam};

/// The rules of a pod for source addresses, as `ip rule` lists them.
fn rules(rail: &RailNode) -> Vec<String> {
    let text = |rule: &Value| {
        let to = rule["dst"].as_str().map(|dst| format!(" to {dst}/{}", rule["dstlen"])).unwrap_or_default();
        let part = |key: &str| rule[key].as_str().unwrap_or_default().to_owned();
        format!("{}: {}{to} {}", rule["priority"], part("src"), part("table"))
    };
    let all = [rail.pod.ip("-4 rule show"), rail.pod.ip("-6 rule show")].concat();
    all.iter().filter(|rule| rule["src"] != "all").map(text).collect()
}

fn table(rail: &RailNode, number: &str) -> Vec<String> {
    let text = |route: &Value| {
        let gateway = route["gateway"].as_str().unwrap_or("-");
        format!("{} {gateway} {}", route["dst"].as_str().unwrap(), route["dev"].as_str().unwrap())
    };
    let all = ["-4", "-6"].map(|family| rail.pod.ip(&format!("{family} route show table all"))).concat();
    all.iter().filter(|route| route["table"] == number).map(text).collect()
}

#[test]
fn an_invalid_value_is_refused_and_changes_nothing() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for (conf, expected) in [
        (json!(1), ["rail", "1"]),
        (json!("yes"), ["rail", "yes"]),
        (json!([]), ["rail", "[]"]),
        (json!({"table": 0}), ["rail.table", "0"]),
        (json!({"table": 254}), ["rail.table", "254"]),
        (json!({"table": -1}), ["rail.table", "-1"]),
        (json!({"table": 4_294_967_296_u64}), ["rail.table", "4294967296"]),
        (json!({"table": "main"}), ["rail.table", "main"]),
        (json!({"priority": 1}), ["rail.priority", "1"]),
        (json!({"priority": 32766}), ["rail.priority", "32766"]),
        (json!({"bypass": "10.96.0.0/12"}), ["rail.bypass", "10.96.0.0/12"]),
        (json!({"bypass": ["10.96.0.1/12"]}), ["rail.bypass", "10.96.0.1/12"]),
        (json!({"bypass": ["all"]}), ["rail.bypass", "all"]),
        (json!({"acceptLocal": 1}), ["rail.acceptLocal", "1"]),
    ] {
        rail.macvlan(&json!({"rail": conf})).add().error(7).says(&expected);
    }
    rail.macvlan(&json!({"defaultRoute": "yes"})).add().error(7).says(&["defaultRoute", "yes"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn without_a_rail_there_is_no_rule() {
    let rail = RailNode::new();
    for conf in [json!(null), json!(false)] {
        let call = rail.macvlan(&json!({"rail": conf}));
        call.add().ok();
        assert!(rules(&rail).is_empty());
        call.del().done();
    }
}

/// A pod after an ADD with a result that has a gateway outside of the subnet, and routes.
fn pod_with(rail_conf: &Value) -> (RailNode, testkit::Call, Value) {
    let rail = RailNode::new();
    rail.pod.set_sysctl("net/ipv6/conf/default/accept_dad", "0");
    let ipam = FakeIpam::returning(
        &rail.node,
        &json!({
            "ips": [
                {"address": "10.7.0.5/24", "gateway": "10.7.0.1"},
                {"address": "10.9.9.9/32", "gateway": "10.7.0.2"},
                {"address": "fd00:7::5/64", "gateway": "fe80::1"},
            ],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.8.0.0/16", "gw": "10.7.0.254"}, {"dst": "fd00:8::/64"}],
        }),
    );
    let call = rail.with_ipam(&ipam).with("rail", rail_conf);
    let result = call.add().ok();
    (rail, call, result)
}

#[test]
fn the_routes_of_the_result_are_in_the_rails_table() {
    let (rail, call, result) =
        pod_with(&json!({"bypass": ["10.96.0.0/12", "fd00:96::/108"], "priority": 500}));
    let mut expected = [
        "10.7.0.0/24 - net1",
        "10.9.9.9 - net1",
        "10.7.0.2 - net1",
        "default 10.7.0.1 net1",
        "10.8.0.0/16 10.7.0.254 net1",
        "fd00:7::/64 - net1",
        "fe80::1 - net1",
        "default fe80::1 net1",
        "fd00:8::/64 fe80::1 net1",
    ]
    .map(str::to_owned);
    let mut present = table(&rail, "1001");
    expected.sort();
    present.sort();
    assert_eq!(present, expected);
    assert_eq!(
        rules(&rail),
        [
            "499: 10.7.0.5 to 10.96.0.0/12 main",
            "499: 10.9.9.9 to 10.96.0.0/12 main",
            "500: 10.7.0.5 1001",
            "500: 10.9.9.9 1001",
            "499: fd00:7::5 to fd00:96::/108 main",
            "500: fd00:7::5 1001",
        ]
    );
    assert!(rail.pod.ip("route show default").is_empty());
    assert!(rail.pod.ip("route show 10.8.0.0/16").is_empty());
    let tables: Vec<_> =
        result["routes"].as_array().unwrap().iter().map(|route| route["table"].clone()).collect();
    assert_eq!(tables, [1001, 1001, 1001]);
    for (name, value) in
        [("arp_ignore", "1"), ("arp_announce", "2"), ("rp_filter", "2"), ("accept_local", "0")]
    {
        assert_eq!(rail.pod.sysctl(&format!("net/ipv4/conf/net1/{name}")), value, "{name}");
    }
    call.check_after(&result).done();
    call.with("cniVersion", &json!("1.0.0")).check_after(&result).done();
    call.del().done();
    assert!(rules(&rail).is_empty() && table(&rail, "1001").is_empty());
}

#[test]
fn check_reports_what_the_pod_changed() {
    for (change, expected) in [
        ("ip rule del from 10.7.0.5", "rule 1000: from 10.7.0.5 lookup 1001"),
        ("ip -6 rule del from fd00:7::5", "rule 1000: from fd00:7::5 lookup 1001"),
        ("ip route del 10.7.0.0/24 table 1001", "route to 10.7.0.0/24 through net1 is missing in table 1001"),
        ("ip route del 10.8.0.0/16 table 1001", "10.8.0.0/16"),
        (
            "ip link set lo up; ip route replace 10.7.0.0/24 dev lo table 1001",
            "route to 10.7.0.0/24 through net1 is missing in table 1001",
        ),
        ("ip -6 route del default table 1001", "route to ::/0 through net1 is missing in table 1001"),
        ("echo 0 >/proc/sys/net/ipv4/conf/net1/arp_ignore", "net.ipv4.conf.net1.arp_ignore is 0, expected 1"),
        (
            "echo 0 >/proc/sys/net/ipv4/conf/net1/accept_local",
            "net.ipv4.conf.net1.accept_local is 0, expected 1",
        ),
    ] {
        let (rail, call, result) = pod_with(&json!({"acceptLocal": true}));
        rail.pod.run("sh", &["-c", change]);
        call.check_after(&result).error(103).says(&[expected]);
        call.del().done();
        assert!(rules(&rail).is_empty(), "{change}");
    }
}

#[test]
fn a_table_or_a_rule_that_the_pod_uses_is_not_shared() {
    let rail = RailNode::new();
    for (use_it, expected) in [
        (
            "route add 10.1.0.0/16 dev lo table 1001",
            "rail.table: the pod uses routing table 1001 already: it has a route to 10.1.0.0/16",
        ),
        ("-6 route add unreachable fd01::/64 table 1001", "it has a route to fd01::/64"),
        ("rule add from 10.1.0.1 lookup 1001", "from 10.1.0.1 lookup 1001"),
        (
            "rule add from 10.7.0.10 to 10.96.0.0/12 lookup main priority 999",
            "the pod already has the rule 999: from 10.7.0.10",
        ),
        (
            "rule add from 10.7.0.10 to 10.97.0.0/16 lookup main priority 999",
            "the pod already has the rule 999: from 10.7.0.10 to 10.97.0.0/16",
        ),
    ] {
        rail.pod.run_ip("link set lo up");
        rail.pod.run_ip(use_it);
        let before = rail.node.snapshot();
        let rail_conf = json!({"bypass": ["10.96.0.0/12", "10.97.0.0/16"]});
        let call = rail.macvlan(&json!({"rail": rail_conf, "ipam": ipam(&["10.7.0.10"])}));
        call.add().error(102).says(&[expected]);
        rail.node.snapshot().assert_is(&before);
        rail.pod.run_ip(&use_it.replace(" add ", " del "));
    }
}
