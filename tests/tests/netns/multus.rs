//! Delegates of Multus: the exact environment and configurations.

use serde_json::{Value, json};
use testkit::Observe;

use silkrail_tests::{
    multus::{DelInput, Delegate, MultusPod, state_files},
    rail::{RailNode, ipam},
};

fn delegate(name: &str, ifname: &'static str, master: &str, range: &str) -> Delegate {
    let plugin = json!({
        "type": "macvlan", "master": master, "rail": true, "capabilities": {"mac": true}, "ipam": ipam(&[range]),
    });
    Delegate {
        network: json!({"cniVersion": "1.0.0", "name": name, "plugins": [plugin]}),
        ifname,
        device: None,
        runtime: json!({"mac": "c2:00:00:00:00:07", "ips": ["10.7.0.99"]}),
    }
}

fn networks(second_master: &str) -> Vec<Delegate> {
    vec![
        delegate("cluster", "eth0", "rail0", "10.7.0.10-10.7.0.19"),
        delegate("rail", "net1", second_master, "10.7.0.20-10.7.0.29"),
    ]
}

#[test]
fn case_127_delegates_are_added_and_deleted_also_with_the_stripped_configuration() {
    for input in [DelInput::Whole, DelInput::Stripped] {
        let rail = RailNode::new();
        let before = rail.node.snapshot();
        let multus = MultusPod { node: &rail.node, pod: &rail.pod, delegates: networks("rail0") };
        let results = multus.add(input).unwrap();
        let address = |result: &Value| result["ips"][0]["address"].as_str().unwrap().to_owned();
        assert_eq!(rail.pod.addresses("eth0"), [address(&results[0])]);
        assert_eq!(rail.pod.addresses("net1"), [address(&results[1])]);
        assert_ne!(rail.pod.link("eth0").unwrap()["address"], "c2:00:00:00:00:07");
        assert_eq!(rail.pod.link("net1").unwrap()["address"], "c2:00:00:00:00:07");
        assert!(multus.del(input).is_empty());
        rail.node.snapshot().assert_is(&before);
        assert!(state_files().is_empty(), "{input:?}: {:?}", state_files());
        // The addresses are free again.
        for _ in 0..12 {
            multus.add(input).unwrap();
            assert!(multus.del(input).is_empty());
        }
    }
}

#[test]
fn case_127_a_delegate_that_fails_is_deleted_together_with_the_earlier_ones() {
    for input in [DelInput::Whole, DelInput::Stripped] {
        let rail = RailNode::new();
        let before = rail.node.snapshot();
        let multus = MultusPod { node: &rail.node, pod: &rail.pod, delegates: networks("gone0") };
        multus.add(input).unwrap_err().error(7).says(&["gone0"]);
        rail.node.snapshot().assert_is(&before);
        assert!(state_files().is_empty(), "{input:?}: {:?}", state_files());
    }
}

/// A root directory as that of a container: it has its own /run, and the network namespaces of the node are mounted there.
const CONTAINER: &str = "root=/mnt; mount -t tmpfs tmpfs $root
    for dir in /proc /sys /dev /usr /lib /lib64 \"$1\" \"$2\"; do mkdir -p $root$dir; mount --rbind $dir $root$dir; done
    shift 2; exec chroot $root \"$@\"";

#[test]
fn a_plugin_that_is_called_in_a_container_refuses_to_attach_and_deletes() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let (netns, plugins) = (rail.pod.path().parent().unwrap(), rail.node.cni_path());
    let (netns, plugins) = (netns.to_str().unwrap(), plugins.to_str().unwrap());
    let inside =
        rail.macvlan(&json!({})).under(&["unshare", "--mount", "sh", "-ec", CONTAINER, "sh", netns, plugins]);
    let refusal = inside.add().error(5);
    refusal.says(&["is in a container", "/run"]);
    assert!(refusal.details.contains("chrootDir"), "{refusal:?}");
    inside.del().done();
    rail.node.snapshot().assert_is(&before);
}
