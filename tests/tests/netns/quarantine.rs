//! Unreadable state files: they are renamed, reported, and kept.

use std::{fs, path::PathBuf};

use serde_json::json;

use silkrail_tests::{
    rail::{RailNode, ips},
    reboot::store,
};

/// The quarantined files, with their content.
fn quarantined(rail: &RailNode) -> Vec<(String, String)> {
    let dir = rail.node.state_dir().join("attachments");
    let mut paths: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_str().unwrap().contains(".bad"));
    paths.sort();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn all_quarantined_journals_of_an_attachment_are_kept() {
    let rail = RailNode::new();
    let call = rail.layer_2(&json!({}));
    let journal = rail.node.state_dir().join("attachments/c0ffee@net1.macvlan.journal");
    for content in ["first", "second"] {
        call.add().ok();
        fs::write(&journal, content).unwrap();
        let answer = call.del();
        answer.done();
        assert!(answer.stderr.contains("moved to") && answer.stderr.contains(".bad"), "{answer:?}");
    }
    let name = "c0ffee@net1.macvlan.journal.bad";
    let expected = [(name.to_owned(), "first".to_owned()), (format!("{name}.1"), "second".to_owned())];
    assert_eq!(quarantined(&rail), expected);
}

#[test]
fn a_journal_of_a_newer_version_is_quarantined_by_add_and_reported() {
    let rail = RailNode::new();
    let call = rail.layer_2(&json!({}));
    call.add().ok();
    let journal = rail.node.state_dir().join("attachments/c0ffee@net1.macvlan.journal");
    let newer = fs::read_to_string(&journal).unwrap().replacen("\"version\":1", "\"version\":2", 1);
    fs::write(&journal, &newer).unwrap();
    let answer = call.clone().ifname("net1").add();
    assert!(answer.stderr.contains("newer"), "{answer:?}");
    // The link that the journal records still exists; the plugin cannot know its owner.
    answer.error(102).says(&["net1", "already exists"]);
    assert_eq!(quarantined(&rail)[0].1, newer);
}

#[test]
fn a_map_of_a_newer_version_is_rebuilt_from_the_claims() {
    let rail = RailNode::new();
    let call = |id: &str| rail.macvlan(&json!({})).container(id).ifname(id);
    let first = ips(&call("a").add().ok());
    let map = store(&rail.node).join("maps/rail");
    let mut bytes = fs::read(&map).unwrap();
    bytes[8] = 2;
    fs::write(&map, bytes).unwrap();
    let second = ips(&call("b").add().ok());
    assert_ne!(first, second, "the claims record every allocated address");
    for id in ["a", "b"] {
        call(id).del().done();
    }
    assert!(rail.node.snapshot().claims().is_empty());
}
