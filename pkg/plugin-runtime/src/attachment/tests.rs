//! Tests of which journal is reverted.

use std::fmt;

use serde::{Deserialize, Serialize};
use state::StateDir;

use super::*;

/// A change whose revert fails.
#[derive(Debug, Serialize, Deserialize)]
struct NeverReverted;

impl Change for NeverReverted {
    type Node = Node;
    type Error = Error;

    fn revert(&self, _: &Node) -> Result<(), Error> {
        Err(cni::Error::new(cni::ErrorCode::INTERNAL, "the revert was tried").into())
    }

    fn step(&self) -> &'static str {
        "never"
    }

    fn verify(&self, _: &Node) -> Result<(), Error> {
        Ok(())
    }
}

impl fmt::Display for NeverReverted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a change")
    }
}

#[test]
fn a_journal_of_another_inode_is_not_reverted() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(StateDir::at(dir.path()), Vec::new(), None);
    let attachment: Attachment = "c0ffee@net1".parse().unwrap();
    let beginning = JournalSpec {
        plugin: "test",
        attachment: &attachment,
        network: "rail",
        netns_path: Path::new("/nonexistent"),
        netns: None,
    };
    let mut journal = begin::<NeverReverted>(&node, &beginning).unwrap();
    journal.record(NeverReverted).unwrap();
    let inode = journal.inode().unwrap();
    drop(journal);
    revert_if_inode::<NeverReverted>(&node, "test", &attachment, inode + 1).unwrap();
    let tried = revert_if_inode::<NeverReverted>(&node, "test", &attachment, inode).unwrap_err();
    assert!(tried.to_string().contains("the revert was tried"), "{tried}");
}

#[test]
fn an_attachment_whose_namespace_cannot_be_opened_is_not_reverted() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(StateDir::at(dir.path()), Vec::new(), None);
    let attachment: Attachment = "c0ffee@net1".parse().unwrap();
    let symlink_loop = dir.path().join("netns");
    std::os::unix::fs::symlink("netns", &symlink_loop).unwrap();
    let in_netns = |ino| JournalSpec {
        plugin: "test",
        attachment: &attachment,
        network: "rail",
        netns_path: &symlink_loop,
        netns: Some(NetNsId::new(4, ino)),
    };
    let mut journal = begin::<NeverReverted>(&node, &in_netns(1)).unwrap();
    journal.record(NeverReverted).unwrap();
    journal.complete().unwrap();
    drop(journal);
    let refused = begin::<NeverReverted>(&node, &in_netns(2)).unwrap_err();
    assert!(matches!(refused, Error::NetNs(_)), "{refused}");
}
