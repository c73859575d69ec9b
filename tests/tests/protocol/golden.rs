//! The exact output of ADD of macvlan, in each version.

use serde_json::json;
use testkit::{Observe, TestNode};

/// Versions, each with the expected output.
const GOLDEN: [(&str, &str); 7] = [
    ("0.1.0", include_str!("golden/0.1.0.json")),
    ("0.2.0", include_str!("golden/0.2.0.json")),
    ("0.3.0", include_str!("golden/0.3.0.json")),
    ("0.3.1", include_str!("golden/0.3.1.json")),
    ("0.4.0", include_str!("golden/0.4.0.json")),
    ("1.0.0", include_str!("golden/1.0.0.json")),
    ("1.1.0", include_str!("golden/1.1.0.json")),
];

#[test]
fn macvlan_prints_the_result_in_the_shape_of_its_version() {
    let node = TestNode::new();
    let (pod, switch) = (node.pod("a"), node.pod("switch"));
    node.cable("rail0", &switch, "port0");
    for (version, golden) in GOLDEN {
        let conf = json!({
            "cniVersion": version, "name": "rail", "type": "macvlan", "master": "rail0", "mac": "c2:11:22:33:44:55",
            "dns": {"nameservers": ["10.7.0.2"], "search": ["rail.example"]},
            "ipam": {"type": "silkrail-ipam", "pools": [
                {
                    "name": "four", "subnet": "10.7.0.0/24", "ips": ["10.7.0.10"], "gateway": "10.7.0.1",
                    "routes": [{"dst": "10.8.0.0/16", "gw": "10.7.0.254"}],
                },
                {"name": "six", "subnet": "fd00:7::/64", "ips": ["fd00:7::a"]},
            ]},
        });
        let macvlan = node.plugin("macvlan").conf(&conf).pod(&pod);
        let answer = macvlan.add();
        answer.ok();
        // A file of text ends with a newline; a result does not.
        assert_eq!(answer.stdout, golden.trim_end(), "version {version}");
        macvlan.del().done();
    }
}
