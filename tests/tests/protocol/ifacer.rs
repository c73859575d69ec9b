//! `ifacer`: what it refuses on any node, before any change.

use serde_json::{Value, json};
use testkit::{Observe, TestNode};

use crate::ProtocolFixture;

/// Returns a configuration; `more` replaces keys of a VLAN of `eth0`.
fn conf(more: &Value) -> Value {
    let mut conf = json!({
        "cniVersion": "1.1.0", "name": "vlan", "type": "ifacer", "interfaces": ["eth0"], "vlanID": 100,
    });
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    conf
}

#[test]
fn a_value_that_is_not_valid_is_refused_with_its_key() {
    let fixture = ProtocolFixture::new();
    let two = json!(["eth0", "eth1"]);
    for (more, key, shown) in [
        (json!({"interfaces": null}), "interfaces", "at least one"),
        (json!({"interfaces": ["a/b"]}), "interfaces", "a/b"),
        (json!({"interfaces": ["eth0", "eth0"]}), "interfaces", "twice"),
        (json!({"interfaces": ["enp202s0f0np0"]}), "interfaces", "enp202s0f0np0.100"),
        (json!({"vlanID": 0, "vlanName": "rail0"}), "vlanName", "rail0"),
        (json!({"vlanID": -1}), "vlanID", "-1"),
        (json!({"vlanID": 4095}), "vlanID", "4095"),
        (json!({"vlanID": "100"}), "vlanID", "100"),
        (json!({"bond": {"name": "bond0"}}), "interfaces", "at least two"),
        (json!({"interfaces": two}), "bond", "several"),
        (json!({"interfaces": two, "bond": {"name": "eth1"}}), "bond.name", "eth1"),
        (json!({"interfaces": two, "bond": {"mode": 7}}), "bond.mode", "7"),
        (json!({"interfaces": two, "bond": {"mode": "active-backup"}}), "bond.mode", "active-backup"),
        (json!({"interfaces": two, "bond": {"options": "miimon"}}), "bond.options", "miimon"),
        (json!({"interfaces": two, "bond": {"options": "mii=1"}}), "bond.options", "miimon, up_delay"),
        (json!({"interfaces": two, "bond": {"options": "primary=eth7"}}), "bond.options", "eth7"),
    ] {
        let refusal = fixture.call("ifacer").conf(&conf(&more)).add().error(7);
        assert!(refusal.msg.starts_with(&format!("{key}: ")), "{refusal:?}");
        refusal.says(&[shown]);
    }
    assert!(fixture.is_untouched());
}

#[test]
fn a_node_without_the_interface_or_the_module_is_reported_before_any_change() {
    let node = TestNode::new();
    node.run_ip("link add eth0 type veth peer name eth1");
    node.run_ip("link property add dev eth0 altname enp216s0f0np0");
    let before = node.snapshot();
    let pod = node.pod("a");
    let call = |more: &Value| node.plugin("ifacer").pod(&pod).conf(&conf(more));
    let missing = call(&json!({"interfaces": ["eth7"]}));
    missing.add().error(7).says(&["interfaces: this node has no link eth7"]);
    missing.status().error(50).says(&["eth7"]);
    let by_altname =
        |vlan_name: Value| json!({"interfaces": ["enp216s0f0np0"], "vlanID": 3999, "vlanName": vlan_name});
    let refusal = call(&by_altname(Value::Null)).add().error(7);
    assert!(
        refusal.msg.contains("longer than 15 bytes") && refusal.details.contains("vlanName"),
        "{refusal:?}"
    );
    call(&json!({"interfaces": ["lo"]})).add().error(7).says(&["lo is not an Ethernet link"]);
    // The kernel that runs this test may have the modules.
    let bond = json!({"interfaces": ["eth0", "eth1"], "vlanID": 0, "bond": {"name": "bond0"}});
    let named = by_altname(json!("rail0.3999"));
    for (kind, module, more) in
        [("vlan", "8021q", json!({})), ("vlan", "8021q", named), ("bond", "bonding", bond)]
    {
        let has_it = supports(&node, kind);
        let call = call(&more);
        if has_it {
            call.status().done();
            continue;
        }
        for refusal in [call.add().error(999), call.status().error(50)] {
            refusal.says(&[kind, module]);
            assert!(refusal.details.contains(&format!("modprobe {module}")), "{refusal:?}");
        }
        call.del().done();
    }
    drop(pod);
    node.snapshot().assert_is(&before);
}

/// Whether `ip` can create a link of a kind.
fn supports(node: &TestNode, kind: &str) -> bool {
    let settings =
        if kind == "vlan" { "link eth0 name probe type vlan id 1" } else { "name probe type bond" };
    let created =
        node.command("ip").args(["link", "add"]).args(settings.split(' ')).status().unwrap().success();
    if created {
        node.run_ip("link delete probe");
    }
    created
}

#[test]
fn one_interface_without_a_vlan_needs_nothing() {
    let node = TestNode::new();
    let pod = node.pod("a");
    let call = node.plugin("ifacer").pod(&pod).conf(&conf(&json!({"interfaces": ["eth7"], "vlanID": 0})));
    let result = call.add().ok();
    assert_eq!(result, json!({"cniVersion": "1.1.0"}));
    call.check_after(&result).done();
    call.del().done();
    call.status().done();
    assert!(node.snapshot().state().is_empty());
}
