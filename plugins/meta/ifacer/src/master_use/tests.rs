//! Tests of the users of a master. The master is a link of the node: this kernel may have neither VLANs nor bonds. Whether
//! something else uses a link that is to be ended can only be seen by a process that sees all others, so the lab tests that.

use std::fs;

use identifiers::VlanId;
use journal::Change as _;
use rtnl::LinkKind;
use state::StateDir;
use tempfile::TempDir;
use testkit::{Observe, TestNode};

use super::*;
use crate::{master::MasterKind, orphan_users, unused};

/// A node with the links `eth0`, which is down, `eth1` and `eth2`.
struct Fixture {
    node: Node,
    host: TestNode,
    _state: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let (host, state) = (TestNode::new(), tempfile::tempdir().unwrap());
        for link in ["eth0", "eth1", "eth2"] {
            host.run_ip(&format!("link add {link} type veth"));
        }
        for link in ["eth1", "eth2"] {
            host.run_ip(&format!("link set {link} up"));
        }
        let node = Node::new(StateDir::at(state.path()), Vec::new(), None);
        Self { node, host, _state: state }
    }

    fn acquire(&self, link: &str, attachment: &str) -> MasterUse {
        let master = Master { name: link.parse().unwrap(), kind: MasterKind::Interface };
        let used = MasterUse::of(&master, &attachment.parse().unwrap());
        used.acquire(&self.node, &master).unwrap();
        used
    }

    fn is_up(&self, link: &str) -> bool {
        self.host.link(link).unwrap()["flags"].as_array().unwrap().contains(&"UP".into())
    }

    /// Returns the users of a master; `None` without a record.
    fn users(&self, link: &str) -> Option<Vec<String>> {
        let record = record::find(&self.node, &link.parse().unwrap()).unwrap()?;
        Some(record.users.iter().map(ToString::to_string).collect())
    }

    /// Writes the journal of an attachment.
    fn journal(&self, attachment: &str) {
        self.node.state.make_dir("attachments").unwrap();
        fs::write(self.node.state.journal(&attachment.parse().unwrap(), "ifacer"), "").unwrap();
    }
}

#[test]
fn a_link_that_was_down_is_to_be_ended_after_the_last_of_its_users() {
    let fixture = Fixture::new();
    let is_to_be_ended = |link: &str| {
        let record = record::find(&fixture.node, &link.parse().unwrap()).unwrap().unwrap();
        link_to_end(&fixture.node, &record).unwrap().is_some()
    };
    let (first, second) = (fixture.acquire("eth0", "a@net1"), fixture.acquire("eth0", "b@net1"));
    let again = fixture.acquire("eth0", "b@net1");
    assert!(fixture.is_up("eth0") && again == second);
    assert_eq!(fixture.users("eth0").unwrap(), ["a@net1", "b@net1"]);
    first.verify(&fixture.node).unwrap();
    first.revert(&fixture.node).unwrap();
    assert!(fixture.is_up("eth0") && first.verify(&fixture.node).is_err());
    second.verify(&fixture.node).unwrap();
    first.revert(&fixture.node).unwrap();
    assert_eq!(fixture.users("eth0").unwrap(), ["b@net1"]);
    fixture.acquire("eth1", "a@net1");
    assert!(is_to_be_ended("eth0") && !is_to_be_ended("eth1"), "one that was up stays so");
}

#[test]
fn a_link_that_was_up_stays_up() {
    let fixture = Fixture::new();
    fixture.acquire("eth1", "a@net1").revert(&fixture.node).unwrap();
    assert!(fixture.is_up("eth1") && fixture.users("eth1").is_none());
}

#[test]
fn a_link_with_an_address_is_kept_with_its_record() {
    let fixture = Fixture::new();
    let used = fixture.acquire("eth0", "a@net1");
    fixture.host.run_ip("address add 10.7.0.1/24 dev eth0");
    used.revert(&fixture.node).unwrap();
    assert!(fixture.is_up("eth0") && fixture.users("eth0").is_some_and(|users| users.is_empty()));
    let listed = unused::list(&fixture.node).unwrap();
    assert!(listed[0].in_use.as_ref().is_some_and(|user| user.contains("10.7.0.1/24")), "{listed:?}");
    orphan_users::release(&fixture.node, &[]).unwrap();
    assert!(fixture.is_up("eth0") && fixture.users("eth0").is_some());
}

#[test]
fn gc_keeps_the_users_that_are_valid_or_have_a_journal_on_every_master() {
    let fixture = Fixture::new();
    for link in ["eth0", "eth1"] {
        for attachment in ["gone@net1", "valid@net1", "journaled@net1"] {
            fixture.acquire(link, attachment);
        }
    }
    fixture.acquire("eth1", "gone@net2");
    fixture.journal("journaled@net1");
    orphan_users::release(&fixture.node, &["valid@net1".parse().unwrap()]).unwrap();
    for link in ["eth0", "eth1"] {
        assert_eq!(fixture.users(link).unwrap(), ["journaled@net1", "valid@net1"], "{link}");
    }
    orphan_users::release_attachment(&fixture.node, &"valid@net1".parse().unwrap()).unwrap();
    for link in ["eth0", "eth1"] {
        assert_eq!(fixture.users(link).unwrap(), ["journaled@net1"], "{link}");
    }
    assert!(fixture.is_up("eth0"));
}

#[test]
fn a_master_is_unused_if_none_of_its_users_has_a_journal() {
    let fixture = Fixture::new();
    for (link, attachment) in [("eth1", "gone@net1"), ("eth2", "gone@net2"), ("eth2", "journaled@net1")] {
        fixture.acquire(link, attachment);
    }
    fixture.journal("journaled@net1");
    let listed = unused::list(&fixture.node).unwrap();
    let [eth1] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((eth1.name.as_str(), eth1.users.len(), &eth1.in_use), ("eth1", 1, &None));
    for link in ["eth1", "eth2"] {
        unused::end(&fixture.node, &link.parse().unwrap()).unwrap();
    }
    assert!(fixture.users("eth1").is_none());
    assert_eq!(fixture.users("eth2").unwrap(), ["gone@net2", "journaled@net1"]);
}

#[test]
fn check_finds_a_link_that_is_down_or_renamed_or_gone() {
    let fixture = Fixture::new();
    let used = fixture.acquire("eth0", "a@net1");
    let found = || used.verify(&fixture.node).unwrap_err().to_string();
    fixture.host.run_ip("link set eth0 down");
    assert!(found().contains("it is down"), "{}", found());
    fixture.host.run_ip("link set eth0 name eth7");
    assert!(found().contains("gone, or is another one"), "{}", found());
    fixture.host.run_ip("link delete eth7");
    assert!(found().contains("gone, or is another one"), "{}", found());
}

#[test]
fn the_record_of_a_vlan_is_of_the_link_with_its_index_and_its_id() {
    let _node = TestNode::new();
    let id = |id: i64| VlanId::try_from(id).unwrap();
    let parent = "eth0".parse().unwrap();
    let master = Master { name: "eth0.7".parse().unwrap(), kind: MasterKind::Vlan { parent, id: id(7) } };
    let mut record = MasterRecord::new(&master, vec!["a@net1".parse().unwrap()]).unwrap();
    (record.index, record.created) = (9, true);
    let loopback = rtnl::Handle::open().unwrap().link_by_index(1).unwrap();
    let link = |index, kind| Link { index, kind, name: "renamed".into(), ..loopback.clone() };
    let vlan = |id| Some(LinkKind::Vlan(Some(id)));
    for (link, expected) in [
        (link(9, vlan(7)), true),
        (link(8, vlan(7)), false),
        (link(9, vlan(8)), false),
        (link(9, Some(LinkKind::Vlan(None))), false),
        (link(9, Some(LinkKind::Other("veth".into()))), false),
        (link(9, None), false),
    ] {
        assert_eq!(record.is_of(&link), expected, "{link:?}");
    }
    let of_bond = Master { kind: MasterKind::Interface, name: "bond0".parse().unwrap() };
    assert!(!MasterRecord::new(&of_bond, Vec::new()).unwrap().is_bond());

    // Another link with the name is not the plugin's, which keeps the users.
    let used = MasterUse::of(&master, &"b@net1".parse().unwrap());
    let users = |record: &MasterRecord| record.users.iter().map(ToString::to_string).collect::<Vec<_>>();
    let same = used.record(&master, Some(record.clone()), Some(&link(9, vlan(7)))).unwrap();
    assert!(same.created && users(&same) == ["a@net1", "b@net1"]);
    let other = used.record(&master, Some(record.clone()), Some(&link(10, vlan(7)))).unwrap();
    assert!(!other.created && users(&other) == ["a@net1", "b@net1"]);
    let deleted = used.record(&master, Some(record), None).unwrap();
    assert!(!deleted.created && users(&deleted) == ["a@net1", "b@net1"]);
}

#[test]
fn a_use_ends_on_a_full_disk() {
    let fixture = Fixture::new();
    let state = fixture.node.state.root().to_owned();
    fixture.host.run("mount", &["-t", "tmpfs", "-o", "size=64k", "tmpfs", state.to_str().unwrap()]);
    let [first, second, third] = ["a@net1", "b@net1", "c@net1"].map(|user| fixture.acquire("eth0", user));
    assert!(fs::write(state.join("fill"), vec![0; 1 << 20]).is_err());
    first.revert(&fixture.node).unwrap();
    assert_eq!(fixture.users("eth0").unwrap(), ["b@net1", "c@net1"]);
    // The link of the last user is kept, with its record.
    fixture.host.run_ip("address add 10.7.0.1/24 dev eth0");
    second.revert(&fixture.node).unwrap();
    third.revert(&fixture.node).unwrap();
    assert!(fixture.is_up("eth0") && fixture.users("eth0").is_some_and(|users| users.is_empty()));
    fixture.host.run("umount", &[state.to_str().unwrap()]);
}

#[test]
fn users_that_an_earlier_version_wrote_into_the_record_count() {
    let fixture = Fixture::new();
    fixture.acquire("eth1", "a@net1");
    let record = fixture.node.state.masters().join("eth1");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    json["users"] = serde_json::json!(["b@net1".parse::<Attachment>().unwrap()]);
    fs::write(&record, json.to_string()).unwrap();
    assert_eq!(fixture.users("eth1").unwrap(), ["b@net1", "a@net1"]);
    orphan_users::release_attachment(&fixture.node, &"b@net1".parse().unwrap()).unwrap();
    assert_eq!(fixture.users("eth1").unwrap(), ["a@net1"]);
    orphan_users::release_attachment(&fixture.node, &"a@net1".parse().unwrap()).unwrap();
    assert_eq!(fs::read_dir(fixture.node.state.masters()).unwrap().count(), 0);
}
