//! Orphans, which no journal records: `silkrail gc` and the plugins' GC release them.

use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Command, thread};

use serde_json::{Value, json};
use testkit::{Call, TestNode};

use silkrail_tests::{
    cli::executable,
    evidence::ProcFixture,
    rail::{RailNode, ip, pool},
    reboot::{FORMER, boot_id, store},
};

fn pools() -> Value {
    json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.20"])]})
}

fn remove_journals(node: &TestNode) {
    fs::remove_dir_all(node.state_dir().join("attachments")).unwrap();
}

fn valid(call: &Call, containers: &[&str]) -> Call {
    let list: Value = containers.iter().map(|id| json!({"containerID": id, "ifname": "net1"})).collect();
    call.with("cni.dev/valid-attachments", &list)
}

/// A node with a claimed address whose journal was removed.
fn orphaned_address() -> (RailNode, Call) {
    let rail = RailNode::new();
    let call = rail.ipam(&pools());
    call.add().ok();
    remove_journals(&rail.node);
    (rail, call)
}

#[test]
fn node_gc_releases_an_address_without_a_journal() {
    let (rail, call) = orphaned_address();
    let evidence = ProcFixture::of(&rail.node);
    assert_eq!(evidence.with_state("", "stale"), ["address c0ffee@net1 10.7.0.10"]);
    assert_eq!(rail.node.snapshot().claims(), ["10.7.0.10"], "that was a dry run");
    assert_eq!(evidence.with_state("--yes", "reverted"), ["address c0ffee@net1 10.7.0.10"]);
    assert!(rail.node.snapshot().claims().is_empty());
    call.add().ok();
}

#[test]
fn ipam_plugin_gc_releases_an_address_without_a_journal() {
    let (rail, call) = orphaned_address();
    valid(&call, &["c0ffee"]).gc().done();
    assert_eq!(rail.node.snapshot().claims(), ["10.7.0.10"], "it is valid");
    valid(&call, &["other"]).gc().done();
    assert!(rail.node.snapshot().claims().is_empty());
}

#[test]
fn main_plugin_gc_releases_orphaned_addresses_through_its_ipam_plugin() {
    let rail = RailNode::new();
    rail.ipam(&pools()).add().ok();
    remove_journals(&rail.node);
    valid(&rail.macvlan(&json!({})), &[]).gc().done();
    assert!(rail.node.snapshot().claims().is_empty());
}

#[test]
fn gc_of_one_network_keeps_the_addresses_of_another() {
    let rail = RailNode::new();
    let other = rail.ipam(&pools()).with("name", &json!("other"));
    let address = ip(&other.add().ok());
    valid(&rail.ipam(&pools()), &[]).gc().done();
    assert_eq!(rail.node.snapshot().claims(), [address.as_str()]);
    // Also if only the journal of the main plugin records the attachment.
    other.del().done();
    let main = rail.macvlan(&json!({"name": "other"}));
    let address = ip(&main.add().ok());
    fs::remove_file(rail.node.state_dir().join("attachments/c0ffee@net1.silkrail-ipam.journal")).unwrap();
    valid(&rail.ipam(&pools()), &[]).gc().done();
    assert_eq!(rail.node.snapshot().claims(), [address.as_str()]);
    main.del().done();
}

#[test]
fn gc_neither_waits_for_nor_quarantines_journals_of_other_networks() {
    let rail = RailNode::new();
    rail.macvlan(&json!({"name": "other"})).add().ok();
    let path = rail.node.state_dir().join("attachments/c0ffee@net1.macvlan.journal");
    let newer = fs::read_to_string(&path).unwrap().replacen("\"version\":1", "\"version\":2", 1);
    fs::write(&path, newer).unwrap();
    let garbage = rail.node.state_dir().join("attachments/dead@net1.macvlan.journal");
    fs::write(&garbage, "garbage").unwrap();
    let before = rail.node.snapshot();
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    valid(&rail.macvlan(&json!({})), &[]).gc().done();
    held.unlock().unwrap();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn an_address_whose_journal_is_quarantined_is_kept_and_so_is_the_file() {
    let rail = RailNode::new();
    let call = rail.ipam(&pools());
    call.add().ok();
    let journal = rail.node.state_dir().join("attachments/c0ffee@net1.silkrail-ipam.journal");
    let quarantined = PathBuf::from(format!("{}.bad", journal.display()));
    fs::rename(&journal, &quarantined).unwrap();
    let before = rail.node.snapshot();
    let evidence = ProcFixture::of(&rail.node);
    valid(&call, &[]).gc().done();
    assert_eq!(evidence.with_state("--yes", "kept"), [format!("file - {}", quarantined.display())]);
    rail.node.snapshot().assert_is(&before);
    // DEL releases it: it belongs to the attachment.
    call.del().done();
    assert!(rail.node.snapshot().claims().is_empty());
    assert!(quarantined.exists());
}

#[test]
fn objects_of_a_running_pod_are_kept_if_its_journals_are_missing() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let call = rail.macvlan(&json!({}));
    let address = ip(&call.add().ok());
    remove_journals(&rail.node);
    let before = rail.node.snapshot();
    let kept = evidence.with_state("--yes", "kept");
    assert!(kept.contains(&format!("address c0ffee@net1 {address}")), "{kept:?}");
    valid(&call, &[]).gc().done();
    rail.node.snapshot().assert_is(&before);

    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    evidence.gc("--yes").ended(0);
    assert!(node.snapshot().state().is_empty(), "{:?}", node.snapshot().state());
}

#[test]
fn an_unreadable_pod_map_entry_is_kept_and_so_is_its_address() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let call = rail.macvlan(&json!({}));
    let address = ip(&call.add().ok());
    remove_journals(&rail.node);
    let entry = rail.node.state_dir().join("podmap/v1/c0ffee@net1.json");
    let newer = fs::read_to_string(&entry).unwrap().replace("podmap/1.", "podmap/2.");
    fs::write(&entry, newer).unwrap();
    let before = rail.node.snapshot();
    let kept = evidence.with_state("--yes", "kept");
    for what in [format!("address c0ffee@net1 {address}"), "map-entry c0ffee@net1 c0ffee@net1.json".into()] {
        assert!(kept.contains(&what), "{kept:?}");
    }
    valid(&call, &[]).gc().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn pod_map_entries_and_pod_notes_are_removed_with_their_journals() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let uid = "K8S_POD_NAMESPACE=train;K8S_POD_NAME=job;K8S_POD_UID=91ab";
    rail.macvlan(&json!({})).args(uid).add().ok();
    let half = rail.node.state_dir().join("podmap/v1/.dead@net1.json.new");
    fs::write(&half, "{\"sche").unwrap();
    symlink("dead@net1", rail.node.state_dir().join("ipam/pods/.77ff@net1")).unwrap();
    assert_eq!(
        evidence.with_state("--yes", "reverted"),
        ["map-entry dead@net1 .dead@net1.json.new", "note dead@net1 .77ff@net1"],
        "those of the running pod are kept"
    );
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    remove_journals(&node);
    let gone = evidence.with_state("--yes", "reverted");
    for expected in ["note c0ffee@net1 91ab@net1", "map-entry c0ffee@net1 c0ffee@net1.json"] {
        assert!(gone.contains(&expected.to_owned()), "{gone:?}");
    }
    assert!(node.snapshot().state().is_empty(), "{:?}", node.snapshot().state());
}

#[test]
fn a_device_claim_is_released_with_its_namespace_and_not_before() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let meta = fs::metadata(rail.pod.path()).unwrap();
    let claim = |part: &str, boot: &str| {
        use std::os::unix::fs::MetadataExt;
        json!({
            "part": part,
            "function": "0000:af:00.1",
            "owner": {"containerId": "c0ffee", "ifname": "net1"},
            "netns": rail.pod.path(),
            "netnsId": {"dev": meta.dev(), "ino": meta.ino()},
            "bootId": boot,
        })
    };
    for part in ["vf", "rdma"] {
        let dir = rail.node.state_dir().join(part);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("0000:af:00.1"), claim(part, &boot_id()).to_string()).unwrap();
    }
    let kept = ["rdma-device c0ffee@net1 0000:af:00.1", "vf c0ffee@net1 0000:af:00.1"];
    assert_eq!(evidence.with_state("--yes", "kept"), kept);
    let vf = rail.node.state_dir().join("vf/0000:af:00.1");
    fs::write(&vf, claim("vf", FORMER).to_string()).unwrap();
    assert_eq!(evidence.with_state("--yes", "reverted"), [kept[1]], "it is of another boot");
    fs::write(&vf, "garbage").unwrap();
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    let ran = evidence.gc("--yes").ended(0);
    assert!(ran.stdout.contains(&vf.display().to_string()), "{}", ran.stdout);
    assert_eq!(node.snapshot().state(), ["vf/0000:af:00.1"], "what cannot be understood is never deleted");
}

#[test]
fn del_of_one_attachment_does_not_read_every_claim() {
    let rail = RailNode::new();
    let call = |id: &str| rail.ipam(&pools()).container(id);
    call("kept").add().ok();
    let address = ip(&call("orphan").add().ok());
    fs::remove_file(rail.node.state_dir().join("attachments/orphan@net1.silkrail-ipam.journal")).unwrap();
    call("orphan").del().done();
    assert!(rail.node.snapshot().claims().contains(&address.as_str()), "GC finds it");
    valid(&call("kept"), &["kept"]).gc().done();
    assert_eq!(rail.node.snapshot().claims().len(), 1);
}

#[test]
fn gc_logs_to_the_configured_file() {
    let (rail, call) = orphaned_address();
    let rail = rail.with_every_process();
    let log = rail.node.log_file("log");
    valid(&call, &[]).with("logFile", &json!(log)).gc().done();
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("released a claim without a journal") && text.contains("10.7.0.10"), "{text}");
    let main = rail.macvlan(&json!({"logFile": log, "logLevel": "debug"}));
    main.add().ok();
    fs::write(&log, "").unwrap();
    let _rail = rail.next_pod("b");
    valid(&main, &[]).gc().done();
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("not valid any more"), "{text}");
}

/// A node with this number of attachments without journals, each with a VF and an address.
fn node_with_orphans(attachments: usize) -> (RailNode, ProcFixture) {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    rail.ipam(&pools()).add().ok();
    rail.ipam(&pools()).del().done();
    let (claims, vfs) = (store(&rail.node).join("claims"), rail.node.state_dir().join("vf"));
    fs::create_dir(&vfs).unwrap();
    for n in 0..attachments {
        let (owner, vf) = (format!("c{n}@net1"), format!("0000:{n:02x}:00.1"));
        symlink(&owner, claims.join(format!("10.9.0.{n}"))).unwrap();
        let claim = json!({
            "part": "vf", "function": vf, "owner": {"containerId": format!("c{n}"), "ifname": "net1"},
            "netns": format!("/run/netns/{n}"),
            "netnsId": {"dev": 4, "ino": 99_000_000 + n}, "bootId": boot_id(),
        });
        fs::write(vfs.join(vf), claim.to_string()).unwrap();
    }
    (rail, evidence)
}

/// Returns the number of system calls of a `silkrail gc --yes` that releases them all.
fn calls_for(attachments: usize) -> usize {
    let (rail, evidence) = node_with_orphans(attachments);
    let file = rail.node.state_dir().with_file_name("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&file).arg(executable()).arg("--root").arg(evidence.root());
    command.args(["gc", "--yes", "--state-dir"]).arg(rail.node.state_dir());
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains(&format!("{} reverted, 0 left", 2 * attachments)), "{stdout}");
    assert!(rail.node.snapshot().state().is_empty());
    fs::read_to_string(file).unwrap().lines().count()
}

#[test]
fn the_cost_of_gc_is_linear_in_the_number_of_orphans() {
    // Each on its own thread: a node is bound to its thread.
    let [few, many] = [20, 120].map(|n| thread::spawn(move || calls_for(n)).join().unwrap());
    assert!(many < 7 * few, "6 times as many took {many} system calls instead of {few}");
}
