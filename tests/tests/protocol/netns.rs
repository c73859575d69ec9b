//! `CNI_NETNS`: the plugin's own namespace, and files that are not namespaces.

use serde_json::json;
use testkit::{Observe, TestNode};

use crate::{ProtocolFixture, with};

/// The plugins that work in the namespace.
const INTERFACE_PLUGINS: [&str; 2] = ["macvlan", "ipvlan"];

#[test]
fn case_016_the_plugins_own_namespace_is_refused_and_nothing_is_created() {
    let node = TestNode::new();
    let before = node.snapshot();
    for plugin in INTERFACE_PLUGINS {
        let call = node.plugin(plugin).conf(&with(plugin, "master", json!("lo")));
        for path in ["/proc/thread-self/ns/net", "/proc/self/ns/net"] {
            let refusal = call.clone().env("CNI_NETNS", path).add().error(8);
            assert_eq!(refusal.msg, "plugin's netns and netns from CNI_NETNS should not be the same");
        }
    }
    node.snapshot().assert_is(&before);
}

#[test]
fn case_016_the_override_allows_the_plugins_own_namespace() {
    let node = TestNode::new();
    let switch = node.pod("switch");
    node.cable("rail0", &switch, "port0");
    let before = node.snapshot();
    for yes in ["1", "true", "TRUE"] {
        let call = node
            .plugin("macvlan")
            .conf(&with("macvlan", "master", json!("rail0")))
            .env("CNI_NETNS", "/proc/self/ns/net")
            .env("CNI_NETNS_OVERRIDE", yes);
        call.add().ok();
        assert!(node.link("net1").is_some());
        call.del().done();
        node.snapshot().assert_is(&before);
    }
    let no = node.plugin("macvlan").conf(&with("macvlan", "master", json!("rail0")));
    no.env("CNI_NETNS", "/proc/self/ns/net").env("CNI_NETNS_OVERRIDE", "0").add().error(8);
}

#[test]
fn an_invalid_namespace_is_refused_with_its_path() {
    let fixture = ProtocolFixture::new();
    for plugin in INTERFACE_PLUGINS {
        for path in ["/nonexistent/netns", "/proc/self/status", "/", "/dev/null", "relative"] {
            let refusal = fixture.call(plugin).env("CNI_NETNS", path).add().error(8);
            refusal.says(&[path]);
            assert!(refusal.details.contains("CNI_NETNS must be the path of"), "{refusal:?}");
        }
    }
    assert!(fixture.is_untouched());
}
