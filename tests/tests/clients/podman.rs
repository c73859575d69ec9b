//! podman's containers, from `run` to `rm`.

use serde_json::json;
use silkrail_tests::{
    podman::Podman,
    rail::{RailNode, ipam},
};
use testkit::Observe;

/// The network of podman, with the capability through which podman passes a requested address.
fn podman(rail: &RailNode) -> Podman {
    let macvlan = json!({
        "type": "macvlan", "master": "rail0", "stateDir": rail.node.state_dir(),
        "capabilities": {"ips": true, "mac": true}, "ipam": ipam(&["10.7.0.10-10.7.0.13", "10.7.0.15"]),
    });
    let network = json!({"cniVersion": "1.0.0", "name": "rail", "plugins": [macvlan]});
    Podman::with_network(rail.node.cni_path(), &network)
}

fn ping(podman: &Podman, container: &str, address: &str) {
    podman.ok(&["exec", container, "/bin/busybox", "ping", "-c", "1", "-W", "5", address]);
}

#[test]
fn containers_of_podman_are_run_restarted_killed_and_removed_and_nothing_remains() {
    let rail = RailNode::new();
    rail.switch.run_ip("address add 10.7.0.1/24 dev port0");
    let before = rail.node.snapshot();
    let podman = podman(&rail);

    podman.start("first", &[]).unwrap();
    podman.start("second", &["--ip", "10.7.0.15", "--mac-address", "c2:00:00:00:00:07"]).unwrap();
    assert_eq!(podman.address("second"), "10.7.0.15");
    ping(&podman, "first", "10.7.0.15");
    ping(&podman, "second", "10.7.0.1");
    let neighbor = rail.switch.ip("neighbor show 10.7.0.15");
    assert_eq!(neighbor[0]["lladdr"], "c2:00:00:00:00:07", "{neighbor:?}");

    podman.ok(&["restart", "--time=0", "first"]);
    ping(&podman, "first", "10.7.0.15");
    rail.switch.run("busybox", &["ping", "-c", "1", "-W", "5", &podman.address("first")]);
    assert_eq!(rail.node.snapshot().claims().len(), 2);

    podman.ok(&["kill", "second"]);
    podman.ok(&["rm", "--force", "--time=0", "first", "second"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn podman_shows_why_a_requested_address_is_refused_and_nothing_remains_of_the_container() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let podman = podman(&rail);
    podman.start("first", &["--ip", "10.7.0.15"]).unwrap();
    let one = rail.node.snapshot();
    for (address, reason) in [("10.7.0.15", "already in use by"), ("10.7.0.99", "10.7.0.99")] {
        let message = podman.start("second", &["--ip", address]).unwrap_err();
        assert!(message.contains(reason), "{message}");
        podman.ok(&["rm", "--force", "--ignore", "second"]);
        rail.node.snapshot().assert_is(&one);
    }
    podman.ok(&["rm", "--force", "--time=0", "first"]);
    rail.node.snapshot().assert_is(&before);
}
