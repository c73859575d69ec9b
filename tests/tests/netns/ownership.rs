//! Ownership: objects of another owner, or that are not free yet, are unchanged.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;
use testkit::{FakeIpam, Observe};

use silkrail_tests::rail::RailNode;

#[test]
fn invariant_4_an_address_is_kept_until_its_attachment_is_completely_reverted() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    call.clone().fault("error:1").del().error(11).says(&["failed to revert"]);
    assert_eq!(rail.node.snapshot().claims().len(), 1, "the address is not free yet");
    call.del().done();
    assert!(rail.node.snapshot().state().is_empty());
}

#[test]
fn invariant_3_a_del_without_a_journal_does_not_delete_another_attachments_link() {
    let rail = RailNode::new();
    let owner = rail.macvlan(&json!({})).container("owner");
    owner.add().ok();
    let before = rail.node.snapshot();
    // The path now refers to the namespace of another container.
    rail.macvlan(&json!({})).container("late").del().done();
    rail.node.snapshot().assert_is(&before);
    owner.del().done();
}

#[test]
fn invariant_9_rdma_without_addresses_is_refused() {
    let rail = RailNode::new();
    let call = rail.layer_2(&json!({"rdma": {"require": true}}));
    call.add().error(7).says(&["rdma.require", "ipam"]);
    assert_eq!(rail.pod.link_names(), ["lo"]);
}

#[test]
fn invariant_8_a_log_file_that_is_a_pipe_does_not_block() {
    let rail = RailNode::new();
    let pipe = rail.node.log_file("pipe");
    rail.node.run("mkfifo", &[&pipe]);
    let call = rail.macvlan(&json!({"logFile": pipe}));
    call.add().ok();
    call.del().done();
}

#[test]
fn a_log_file_is_not_written_through_a_symbolic_link() {
    let rail = RailNode::new();
    let (protected, link) = (rail.node.state_dir().with_file_name("p"), rail.node.log_file("l"));
    fs::write(&protected, "protected").unwrap();
    std::os::unix::fs::symlink(&protected, &link).unwrap();
    rail.macvlan(&json!({"logFile": link})).add().ok();
    assert_eq!(fs::read_to_string(&protected).unwrap(), "protected");
    // Nor through a directory that is a symbolic link.
    let (dir, elsewhere) = (rail.node.log_file("dir"), protected.with_file_name("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &dir).unwrap();
    rail.macvlan(&json!({"logFile": dir.join("log")})).container("b").ifname("net2").add().ok();
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_log_file_outside_the_log_directory_is_not_written() {
    let rail = RailNode::new();
    let protected = rail.node.state_dir().with_file_name("protected");
    fs::write(&protected, "protected").unwrap();
    let log = rail.node.log_file("log");
    let around = log.with_file_name("..").join("..").join("..").join(protected.strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(&around).unwrap(), "protected");
    for elsewhere in [protected.clone(), around, "/var/log".into(), "/var/logs".into()] {
        let call = rail.macvlan(&json!({"logFile": elsewhere}));
        let answer = call.add();
        answer.ok();
        assert!(answer.stderr.contains("logFile is not below /var/log/"), "{answer:?}");
        assert!(answer.stderr.contains("msg=\"ADD\""), "it is logged to stderr: {answer:?}");
        call.del().done();
    }
    assert_eq!(fs::read_to_string(&protected).unwrap(), "protected");
}

#[test]
fn invariant_8_a_background_process_of_a_delegate_does_not_block() {
    let rail = RailNode::new();
    let ipam = FakeIpam::install(&rail.node, "fake");
    let script = "#!/bin/sh\ncat >/dev/null\necho '{\"ips\": [{\"address\": \"10.7.0.5/24\"}]}'\nsleep 90 2>/dev/null &\necho $! >/run/pid\n";
    fs::write(ipam.path(), script).unwrap();
    fs::set_permissions(ipam.path(), fs::Permissions::from_mode(0o755)).unwrap();
    rail.with_ipam(&ipam).add().ok();
    let pid = fs::read_to_string("/run/pid").unwrap();
    // It is still running.
    rail.node.run("sh", &["-c", &format!("kill {}", pid.trim())]);
    assert_eq!(rail.pod.addresses("net1"), ["10.7.0.5/24"]);
}
