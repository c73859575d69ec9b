//! Tests of the kit itself: that it shows changes, and leaves nothing on the machine.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{fs, process, thread};

use testkit::{FakeIpam, Observe, TestNode};

/// Returns the links and the named network namespaces of the machine whose names contain a text.
fn on_the_machine(text: &str) -> Vec<String> {
    let lists = ["/sys/class/net", "/run/netns"].into_iter().filter_map(|dir| fs::read_dir(dir).ok());
    let names = lists.flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(text)).collect()
}

#[test]
fn a_node_and_its_pods_are_not_visible_on_the_machine() {
    // No other program has links or namespaces of this name.
    let own = format!("kit{}", process::id());
    let [near, far, name] = ["n", "f", "p"].map(|end| format!("{own}{end}"));
    let work = || {
        let node = TestNode::new();
        let pod = node.pod(&name);
        node.cable(&near, &pod, &far);
        assert_eq!(pod.link_names(), ["lo", far.as_str()]);
        assert_eq!(on_the_machine(&own), [near.as_str()], "the node has its own /sys");
        pod.path().to_owned()
    };
    let path = thread::scope(|scope| scope.spawn(work).join().unwrap());
    assert!(!path.exists());
    assert_eq!(on_the_machine(&own), Vec::<String>::new());
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
