//! Tests of the kit itself: that it shows changes, and leaves nothing on the machine.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{fs, path::Path, thread};

use testkit::{FakeIpam, Observe, TestNode};

/// Returns the links of the machine, and its named network namespaces.
fn machine() -> (Vec<String>, Vec<String>) {
    let names = |dir: &str| {
        let mut names: Vec<_> = fs::read_dir(dir)
            .map(|list| list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
            .unwrap_or_default();
        names.sort();
        names
    };
    (names("/sys/class/net"), names("/run/netns"))
}

#[test]
fn a_node_and_its_pods_are_not_visible_on_the_machine() {
    let before = machine();
    let work = || {
        let node = TestNode::new();
        let pod = node.pod("a");
        node.cable("rail0", &pod, "far0");
        assert_eq!(pod.link_names(), ["lo", "far0"]);
        assert!(Path::new("/sys/class/net/rail0").exists(), "the node has its own /sys");
        pod.path().to_owned()
    };
    let path = thread::spawn(work).join().unwrap();
    assert!(!path.exists());
    assert_eq!(machine(), before);
}

#[test]
fn a_snapshot_shows_what_has_changed() {
    let node = TestNode::new();
    let pod = node.pod("a");
    node.cable("rail0", &pod, "far0");
    let before = node.snapshot();
    node.snapshot().assert_is(&before);
    pod.run_ip("address add 10.9.0.1/24 dev far0");
    fs::write(node.state_dir().join("file"), "text").unwrap();
    node.run_ip("link add new0 type veth peer name new1");
    let difference = node.snapshot().difference(&before);
    for part in [
        "+ pod a: addresses of far0",
        "10.9.0.1",
        "+ pod a: route 10.9.0.0/24 far0",
        "+ state/file: text",
        "+ sysfs: net new0",
    ] {
        assert!(difference.contains(part), "{part}: {difference}");
    }
    assert!(!difference.contains("rail0 "), "{difference}");
}

#[test]
#[should_panic(expected = "the node is not as before")]
fn a_remaining_link_is_detected() {
    let node = TestNode::new();
    let before = node.snapshot();
    node.run_ip("link add left0 type veth peer name left1");
    node.snapshot().assert_is(&before);
}

#[test]
fn a_call_can_be_run_by_another_program() {
    let node = TestNode::new();
    let call = node.plugin("macvlan").stdin("{").under(&["strace", "-qq", "-o", "/run/trace"]);
    call.verb("NONSENSE").refusal();
    assert!(fs::read_to_string("/run/trace").unwrap().starts_with("execve("));
}

#[test]
fn a_fake_ipam_plugin_records_its_calls() {
    let node = TestNode::new();
    let ipam = FakeIpam::install(&node, "fake");
    node.run("sh", &["-c", &format!("echo conf | CNI_COMMAND=ADD {}", ipam.path().display())]);
    assert_eq!(ipam.verbs(), ["ADD"]);
    assert_eq!(ipam.calls()[0].stdin, b"conf\n");
}

#[test]
fn the_machine_itself_can_be_the_node() {
    let node = TestNode::of_this_machine();
    let pod = node.pod("a");
    assert_eq!(pod.link_names(), ["lo"]);
    assert!(!node.snapshot().state().contains(&"file"));
    let path = pod.end();
    assert!(!path.exists());
    drop(node);
    assert!(!path.ancestors().nth(2).unwrap().exists(), "its directory is gone");
}
