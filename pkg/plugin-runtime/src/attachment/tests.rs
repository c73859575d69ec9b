//! Tests of which journal is reverted.

use std::fmt;

use serde::{Deserialize, Serialize};
use state::StateDir;

use super::*;
use crate::attachment_gc::gc;

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
    assert!(matches!(refused, Error::Journal(journal::Error::Exists { .. })), "{refused}");
}

/// Writes the journal of a complete attachment of a plugin to a network.
fn attach(node: &Node, plugin: &'static str, attachment: &str, network: &str, netns: Option<NetNsId>) {
    let attachment: Attachment = attachment.parse().unwrap();
    let netns_path = Path::new("/nonexistent");
    let beginning = JournalSpec { plugin, attachment: &attachment, network, netns_path, netns };
    let mut journal = begin::<NeverReverted>(node, &beginning).unwrap();
    journal.record(NeverReverted).unwrap();
    journal.complete().unwrap();
}

#[test]
fn gc_tries_each_attachment_of_its_plugin_and_network_that_is_not_valid() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(StateDir::at(dir.path()), Vec::new(), None);
    for (plugin, attachment, network) in [
        ("test", "valid@net1", "rail"),
        ("test", "gone@net1", "rail"),
        ("test", "valid@net2", "rail"),
        ("test", "other@net1", "other"),
        ("another", "another@net1", "rail"),
    ] {
        // There was no namespace at its path, and there is none.
        attach(&node, plugin, attachment, network, None);
    }
    let valid: [Attachment; 1] = ["valid@net1".parse().unwrap()];
    let failed = gc::<NeverReverted>(&node, "test", "rail", &valid).unwrap_err().to_string();
    let tried = ["valid@net1", "gone@net1", "valid@net2", "other@net1", "another@net1"]
        .map(|attachment| failed.contains(&format!("{attachment}: ")));
    assert_eq!(tried, [false, true, true, false, false], "{failed}");
    let mut left = of_network(&node, "test", "rail").unwrap();
    left.sort_by_key(ToString::to_string);
    let expected = ["gone@net1", "valid@net1", "valid@net2"].map(|it| it.parse::<Attachment>().unwrap());
    assert_eq!(left, expected);
}

#[test]
fn the_holder_of_an_interface_has_its_name_in_its_namespace() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(StateDir::at(dir.path()), Vec::new(), None);
    let netns = |ino| NetNsId::new(4, ino);
    attach(&node, "test", "a@net1", "rail", Some(netns(1)));
    attach(&node, "test", "b@net1", "rail", Some(netns(2)));
    attach(&node, "another", "c@net2", "rail", Some(netns(2)));
    let holder = |ifname: &str, ino| {
        let found = find_holder(&node, "test", &ifname.parse().unwrap(), netns(ino)).unwrap();
        found.map(|attachment| attachment.to_string())
    };
    assert_eq!(holder("net1", 2).as_deref(), Some("b@net1"));
    assert_eq!((holder("net2", 2), holder("net1", 3)), (None, None));
    let journal = node.state.journal(&"b@net1".parse().unwrap(), "test");
    let of_former_boot = std::fs::read_to_string(&journal).unwrap().replace(boot_id().unwrap(), "former");
    std::fs::write(&journal, of_former_boot).unwrap();
    assert_eq!(holder("net1", 2), None, "the boot that it was in has ended");
}

#[test]
fn changes_of_another_program_are_reverted_in_reverse_whichever_fails() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Numbered(u8);

    impl Change for Numbered {
        type Node = Node;
        type Error = Error;

        fn revert(&self, node: &Node) -> Result<(), Error> {
            if self.0 == 2 { Ok(()) } else { NeverReverted.revert(node) }
        }

        fn step(&self) -> &'static str {
            "numbered"
        }

        fn verify(&self, _: &Node) -> Result<(), Error> {
            Ok(())
        }
    }

    impl fmt::Display for Numbered {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "change {}", self.0)
        }
    }

    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(StateDir::at(dir.path()), Vec::new(), None);
    assert!(revert_all(&node, &[Numbered(2)]).is_ok());
    let left = revert_all(&node, &[1, 2, 3].map(Numbered)).unwrap_err().to_string();
    let place = |change: &str| left.find(change);
    assert!(place("change 3") < place("change 1") && place("change 2").is_none(), "{left}");
    assert!(place("change 3").is_some(), "{left}");
}
