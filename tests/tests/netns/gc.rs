//! `silkrail gc`: attachments whose pods ended without a DEL.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

use serde_json::json;
use testkit::{FakeIpam, Observe, TestNode, TestPod, wait_until};

use silkrail_tests::{
    cli,
    evidence::ProcFixture,
    rail::{RailNode, ipam},
    reboot::{FORMER, age},
    reused_inode,
};

/// A node whose only pod ended without a DEL.
pub(crate) fn stale_node() -> (TestNode, TestPod, ProcFixture) {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    rail.macvlan(&json!({})).add().ok();
    let RailNode { pod, node, switch } = rail;
    pod.end();
    // The kernel deletes a namespace in the background.
    wait_until("the pod's link is gone", || node.link("rail0").unwrap()["promiscuity"] == 0);
    (node, switch, evidence)
}

fn journal(node: &TestNode, name: &str) -> PathBuf {
    node.state_dir().join("attachments").join(format!("{name}.journal"))
}

#[test]
fn a_dry_run_lists_stale_state_with_evidence_and_changes_nothing() {
    let (node, _switch, evidence) = stale_node();
    let before = node.snapshot();
    let ran = evidence.gc("").ended(0);
    for part in [
        "STATE",
        "EVIDENCE",
        "stale",
        "journal",
        "c0ffee@net1",
        "macvlan of network rail",
        "silkrail-ipam of",
    ] {
        assert!(ran.stdout.contains(part), "{part} is missing:\n{}", ran.stdout);
    }
    assert!(
        ran.stdout.contains("is dead: /run/silkrail-test/netns/a is gone, no process is in it"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("run the command again with --yes"), "{}", ran.stdout);
    node.snapshot().assert_is(&before);
}

#[test]
fn everything_of_a_pod_that_ended_without_a_del_is_removed() {
    let (node, _switch, evidence) = stale_node();
    let ran = evidence.gc("--yes").ended(0);
    assert!(ran.stdout.contains("reverted") && ran.stdout.contains(", 0 left"), "{}", ran.stdout);
    assert!(node.snapshot().state().is_empty(), "{:?}", node.snapshot().state());
    assert!(evidence.gc("--yes").ended(0).stdout.contains("nothing to revert"));
}

#[test]
fn json_has_every_finding_with_its_evidence() {
    let (node, _switch, evidence) = stale_node();
    let found = evidence.gc("--json").ended(0).json();
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found[0]["state"], "stale");
    assert_eq!(found[0]["what"], "journal");
    assert_eq!(found[0]["attachment"], "c0ffee@net1");
    assert!(found[0]["evidence"].as_str().unwrap().contains("is dead"), "{found}");
    let done = evidence.gc("--yes --json").ended(0).json();
    assert!(done.as_array().unwrap().iter().all(|finding| finding["state"] == "reverted"), "{done}");
    assert!(node.snapshot().state().is_empty());
}

#[test]
fn a_running_pod_is_never_changed() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let call = rail.macvlan(&json!({}));
    let result = call.add().ok();
    let before = rail.node.snapshot();
    let ran = evidence.gc("--yes").ended(0);
    assert_eq!(ran.stdout, "nothing to revert\n");
    rail.node.snapshot().assert_is(&before);
    call.check_after(&result).done();
}

#[test]
fn a_namespace_without_its_path_exists_while_a_process_is_in_it() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    rail.macvlan(&json!({})).add().ok();
    let mut process = rail.pod.command("sleep").arg("600").spawn().unwrap();
    let inside = fs::metadata(rail.pod.path()).unwrap();
    let entered = || {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(format!("/proc/{}/ns/net", process.id())).is_ok_and(|meta| meta.ino() == inside.ino())
    };
    wait_until("the process is in the pod", entered);
    evidence.process(process.id());
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    let before = node.snapshot();
    let ran = evidence.gc("--yes").ended(0);
    let holder = format!("but /proc/{0}/task/{0}/ns/net holds it", process.id());
    assert!(ran.stdout.contains("kept") && ran.stdout.contains(&holder), "{}", ran.stdout);
    node.snapshot().assert_is(&before);
    process.kill().and_then(|()| process.wait()).unwrap();
    evidence.gc("--yes").ended(0);
    assert!(node.snapshot().state().is_empty());
}

#[test]
fn a_later_namespace_with_the_same_inode_number_does_not_keep_stale_state() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    rail.macvlan(&json!({})).add().ok();
    let RailNode { pod, node, switch: _switch } = rail;
    let number = reused_inode::number(&pod);
    pod.end();
    // It is mounted, and a process is in it.
    let later = reused_inode::with_number(&node, number);
    let mut process = later.command("sleep").arg("600").spawn().unwrap();
    evidence.process(process.id());
    let ran = evidence.gc("").ended(0);
    assert!(ran.stdout.contains("holds a newer namespace with the same inode number"), "{}", ran.stdout);
    evidence.gc("--yes").ended(0);
    process.kill().and_then(|()| process.wait()).unwrap();
    assert!(node.snapshot().state().is_empty(), "{:?}", node.snapshot().state());
}

#[test]
fn a_later_namespace_with_the_same_inode_number_and_path_is_another_pod() {
    let rail = RailNode::new().with_every_process();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let (number, path) = (reused_inode::number(&rail.pod), rail.pod.path().to_owned());
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    let later = reused_inode::with_number(&node, number);
    fs::write(&path, "").unwrap();
    node.run("mount", &["--bind".as_ref(), later.path().as_os_str(), path.as_os_str()]);
    // A restarted container has its former name: this is not a duplicate ADD.
    let result = call.add().ok();
    call.check_after(&result).done();
    call.del().done();
    node.run("umount", &[&path]);
    fs::remove_file(&path).unwrap();
    assert!(node.snapshot().state().is_empty(), "{:?}", node.snapshot().state());
    assert_eq!(later.link("net1"), None);
}

#[test]
fn a_namespace_without_its_path_exists_while_it_is_mounted() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    rail.macvlan(&json!({})).add().ok();
    let elsewhere = rail.node.state_dir().with_file_name("elsewhere");
    fs::write(&elsewhere, "").unwrap();
    rail.node.run("mount", &["--bind".as_ref(), rail.pod.path().as_os_str(), elsewhere.as_os_str()]);
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    let before = node.snapshot();
    evidence.gc("--yes").ended(0);
    node.snapshot().assert_is(&before);
    node.run("umount", &[&elsewhere]);
    evidence.gc("--yes").ended(0);
    assert!(node.snapshot().state().is_empty());
}

#[test]
fn invariant_1_gc_reverts_an_add_killed_at_any_step_though_the_pod_is_running() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let call = rail.macvlan(&json!({"ipam": ipam(&["10.7.0.10"])}));
    let before = rail.node.snapshot();
    for step in 1.. {
        let answer = call.clone().fault(&format!("kill:{step}")).add();
        if answer.status.success() {
            assert!(step > 6, "only {} steps: is the executable a debug build?", step - 1);
            break;
        }
        let ran = evidence.gc("--yes").ended(0);
        assert!(ran.stdout.contains("was killed before it completed"), "step {step}: {}", ran.stdout);
        rail.node.snapshot().assert_is(&before);
    }
}

#[test]
fn a_killed_add_in_a_pod_without_a_path_is_reported_and_kept() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    assert!(rail.macvlan(&json!({})).fault("kill:6").add().was_killed());
    let elsewhere = rail.node.state_dir().with_file_name("elsewhere");
    fs::write(&elsewhere, "").unwrap();
    rail.node.run("mount", &["--bind".as_ref(), rail.pod.path().as_os_str(), elsewhere.as_os_str()]);
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    let before = node.snapshot();
    let ran = evidence.gc("--yes").ended(0);
    assert!(ran.stdout.contains("kept"), "{}", ran.stdout);
    node.snapshot().assert_is(&before);
    node.run("umount", &[&elsewhere]);
}

#[test]
fn an_attachment_with_a_call_in_progress_is_reported_and_unchanged() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let slow = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    slow.block();
    let call = rail.with_ipam(&slow);
    thread::scope(|scope| {
        let add = scope.spawn(|| call.add());
        wait_until("the IPAM plugin is called", || slow.was_called());
        let ran = evidence.gc("--yes").ended(0);
        assert!(
            ran.stdout.contains("in progress") && ran.stdout.contains("an operation is in progress"),
            "{}",
            ran.stdout
        );
        slow.unblock();
        add.join().unwrap().ok();
    });
    assert_eq!(rail.pod.addresses("net1"), ["10.7.0.5/24"]);
    assert_eq!(evidence.gc("--yes").ended(0).stdout, "nothing to revert\n");
}

#[test]
fn invariant_10_state_of_an_earlier_boot_is_removed() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    rail.macvlan(&json!({})).add().ok();
    age(&rail.node);
    let stale = evidence.with_state("", "stale");
    assert!(
        stale.contains(&format!("store - {FORMER}")) && stale.iter().any(|it| it.starts_with("journal ")),
        "{stale:?}"
    );
    evidence.gc("--yes").ended(0);
    assert!(rail.node.snapshot().state().is_empty(), "{:?}", rail.node.snapshot().state());
    // The namespace of the current boot is not that of the earlier one.
    assert!(rail.pod.link("net1").is_some());
}

#[test]
fn what_cannot_be_reverted_is_kept_and_reported_with_the_reason_and_the_exit_status() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let fake = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    rail.with_ipam(&fake).add().ok();
    rail.macvlan(&json!({})).container("other").ifname("net2").add().ok();
    fake.fails("DEL", 11, "the server is away");
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    let ran = evidence.gc("--yes").ended(3);
    assert!(ran.stdout.contains("left: journal macvlan of network rail: "), "{}", ran.stdout);
    assert!(ran.stdout.contains("the server is away"), "{}", ran.stdout);
    let names: Vec<_> = node.snapshot().state().into_iter().map(str::to_owned).collect();
    assert_eq!(names, ["attachments/c0ffee@net1.macvlan.journal"], "the other pod's state is removed");
    fake.recovers("DEL");
    evidence.gc("--yes").ended(0);
    assert!(node.snapshot().state().is_empty());
}

#[test]
fn an_ipam_plugin_that_was_moved_is_found_in_cni_path() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let fake = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    rail.with_ipam(&fake).add().ok();
    let moved = fake.dir().with_file_name("moved");
    fs::rename(fake.dir(), &moved).unwrap();
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    let ran = evidence.gc("--yes --cni-path /nonexistent").ended(3);
    assert!(ran.stdout.contains("failed to find plugin"), "{}", ran.stdout);
    evidence.gc(&format!("--yes --cni-path {}", moved.display())).ended(0);
    assert!(node.snapshot().state().is_empty());
}

#[test]
fn a_journal_of_an_unknown_plugin_is_kept() {
    let (node, _switch, evidence) = stale_node();
    let path = journal(&node, "c0ffee@net1.macvlan");
    fs::rename(&path, journal(&node, "c0ffee@net1.wormhole")).unwrap();
    let ran = evidence.gc("--yes").ended(3);
    assert!(ran.stdout.contains("no plugin \"wormhole\""), "{}", ran.stdout);
    assert!(journal(&node, "c0ffee@net1.wormhole").exists());
}

#[test]
fn an_unreadable_journal_is_reported_and_kept() {
    let (node, _switch, evidence) = stale_node();
    for name in ["c0ffee@net1.macvlan", "c0ffee@net1.silkrail-ipam"] {
        fs::write(journal(&node, name), "{\"version\":99}\n").unwrap();
    }
    let before = node.snapshot();
    let ran = evidence.gc("--yes").ended(0);
    assert!(ran.stdout.contains("kept") && ran.stdout.contains("newer Silkrail"), "{}", ran.stdout);
    node.snapshot().assert_is(&before);
}

#[test]
fn gc_does_not_disturb_pods_that_start_and_stop() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let calls: Vec<_> = (0..3)
        .map(|n| rail.macvlan(&json!({})).container(&format!("c{n}")).ifname(&format!("net{n}")))
        .collect();
    thread::scope(|scope| {
        let pods: Vec<_> = calls
            .iter()
            .map(|call| {
                scope.spawn(|| {
                    for _ in 0..8 {
                        let result = call.add().ok();
                        call.check_after(&result).done();
                        call.del().done();
                    }
                })
            })
            .collect();
        while !pods.iter().all(thread::ScopedJoinHandle::is_finished) {
            evidence.gc("--yes").ended(0);
        }
    });
    assert!(rail.node.snapshot().state().is_empty());
}

#[test]
fn gc_refuses_to_run_in_a_container() {
    let (node, _switch, _) = stale_node();
    let before = node.snapshot();
    let state = node.state_dir();
    for yes in [&[][..], &["--yes"][..]] {
        let output = Command::new("unshare")
            .args(["--pid", "--fork", "--mount-proc"])
            .arg(cli::executable())
            .args(["gc", "--state-dir"])
            .arg(&state)
            .args(yes)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(
            stderr.contains("PID namespace") && stderr.contains("run it on the node, not in a container"),
            "{stderr}"
        );
    }
    node.snapshot().assert_is(&before);
}

#[test]
fn gc_reverts_nothing_outside_the_host_network_namespace() {
    let (node, _switch, evidence) = stale_node();
    let before = node.snapshot();
    let own = evidence.root().join("proc/self/ns/net");
    fs::remove_file(&own).unwrap();
    std::os::unix::fs::symlink("net:[4026532001]", own).unwrap();
    evidence.gc("").ended(0);
    let ran = evidence.gc("--yes").ended(1);
    assert!(ran.stderr.contains("devices would not return to the host"), "{}", ran.stderr);
    node.snapshot().assert_is(&before);
}

#[test]
fn without_any_state_there_is_nothing_to_do() {
    let node = TestNode::new();
    let evidence = ProcFixture::of(&node);
    fs::remove_dir_all(node.state_dir()).unwrap();
    let stdout = evidence.gc("--yes").ended(0).stdout;
    assert!(stdout.starts_with("nothing to revert\nthere is no directory "), "{stdout}");
    assert_eq!(evidence.gc("--json").ended(0).json(), json!([]));
}
