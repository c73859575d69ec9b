//! State directories that are full, or cannot be written.

use std::path::Path;

use serde_json::json;
use testkit::{Call, Observe};

use silkrail_tests::rail::{RailNode, ipam};

/// A call whose IPAM plugin is in the same executable as the main plugin.
fn attachment(rail: &RailNode) -> Call {
    rail.macvlan(&json!({"ipam": ipam(&["10.7.0.10"])}))
}

fn mount(rail: &RailNode, options: &str) {
    let options = format!("{options},mode=755");
    rail.node.run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", state(rail).to_str().unwrap()]);
}

fn state(rail: &RailNode) -> std::path::PathBuf {
    rail.node.state_dir()
}

/// Fills a directory's file system: no page and no inode is free.
fn fill(rail: &RailNode, dir: &Path) {
    let script =
        "i=0; while : 2>/dev/null >\"$0/ballast$i\"; do i=$((i + 1)); done; cat /dev/zero >\"$0/ballast0\"";
    let dir = dir.to_str().unwrap();
    // The script ends when no space is left.
    rail.node.run("sh", &["-c", &format!("sh -c '{script}' {dir} 2>/dev/null || true")]);
}

#[test]
fn invariant_1_an_add_that_runs_out_of_space_at_any_moment_leaves_nothing() {
    let rail = RailNode::new();
    for unit in ["nr_inodes=", "size=4k,nr_blocks="] {
        for room in 1.. {
            mount(&rail, &format!("{unit}{room}"));
            let before = rail.node.snapshot();
            let answer = attachment(&rail).add();
            if answer.status.success() {
                assert!(room > 3, "{unit}{room} was enough for everything");
                attachment(&rail).del().done();
            } else {
                answer.error(5).says(&["No space left on device", "free space"]);
            }
            rail.node.snapshot().assert_is(&before);
            rail.node.run("umount", &[state(&rail)]);
            if answer.status.success() {
                break;
            }
        }
    }
}

#[test]
fn invariant_2_del_succeeds_on_a_full_disk() {
    let rail = RailNode::new();
    mount(&rail, "size=256k,nr_inodes=64");
    let call = attachment(&rail);
    call.add().ok();
    fill(&rail, &state(&rail));
    call.clone().container("other").ifname("net2").add().error(5).says(&["No space left on device"]);
    call.del().done();
    assert_eq!(rail.pod.link_names(), ["lo"]);
    let left = rail.node.snapshot();
    let left: Vec<_> = left.state().into_iter().filter(|file| !file.starts_with("ballast")).collect();
    assert!(left.is_empty(), "{left:?}");
    call.del().done();
}

#[test]
fn a_state_directory_that_became_read_only_is_named_with_the_remedy_and_del_works_later() {
    let rail = RailNode::new();
    mount(&rail, "size=1m");
    let before = rail.node.snapshot();
    let call = attachment(&rail);
    call.add().ok();
    let held = rail.node.snapshot();
    let remount = |how: &str| {
        rail.node.run("mount", &["-o", &format!("remount,{how}"), state(&rail).to_str().unwrap()]);
    };
    remount("ro");
    let other = rail.node.pod("b");
    let held_with_b = rail.node.snapshot();
    let add = call.clone().pod(&other).container("second").add();
    add.error(5).says(&["Read-only file system", "mount it read-write", state(&rail).to_str().unwrap()]);
    // The state of a recorded attachment cannot be removed; an unknown attachment has none.
    call.del().error(5).says(&["Read-only file system", "mount it read-write"]);
    call.clone().container("second").ifname("net2").del().done();
    rail.node.snapshot().assert_is(&held_with_b);
    drop(other);
    rail.node.snapshot().assert_is(&held);
    remount("rw");
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}
