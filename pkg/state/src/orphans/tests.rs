//! What counts as an orphan, and which evidence shows that an owner is alive.

use std::os::unix::fs::symlink;

use super::*;
use crate::claim::ClaimKind;

struct Node {
    _dir: tempfile::TempDir,
    state: StateDir,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path());
        for directory in
            [state.attachments(), state.podmap().dir().to_owned(), state.notes(), state.masters()]
        {
            fs::create_dir_all(directory).unwrap();
        }
        Self { _dir: dir, state }
    }

    fn claim(&self, part: ClaimKind, function: &str, owner: &str, boot: Option<&str>) {
        let (function, owner) = (function.parse().unwrap(), owner.parse().unwrap());
        let claim = DeviceClaim::of(part, function, &owner, "/nowhere".into(), NetNsId::new(4, 7)).unwrap();
        let mut value = serde_json::to_value(&claim).unwrap();
        value["bootId"] = boot.map_or(value["bootId"].clone(), Into::into);
        let claim: DeviceClaim = serde_json::from_value(value).unwrap();
        claim.acquire(&self.state, &Instant::now, |_| Ok::<_, Error>(true)).unwrap();
    }

    fn entry(&self, owner: &str, boot: &str) {
        let owner: Attachment = owner.parse().unwrap();
        let entry = Entry { boot_id: boot.to_owned(), ..Entry::new("sriov", owner.clone()) };
        self.state.podmap().write(&owner, &entry).unwrap();
    }

    fn journal(&self, owner: &str) {
        fs::write(self.state.attachments().join(format!("{owner}.sriov.journal")), "").unwrap();
    }
}

#[test]
fn an_owner_may_be_alive_if_anything_refers_to_a_namespace_that_may_exist() {
    let node = Node::new();
    let boot = boot_id().unwrap();
    for (index, part) in [ClaimKind::Vf, ClaimKind::Rdma, ClaimKind::Vf].into_iter().enumerate() {
        let owner = ["vf@n", "rdma@n", "former@n"][index];
        node.claim(part, &format!("0000:af:00.{index}"), owner, (index == 2).then_some("former"));
    }
    node.claim(ClaimKind::Vf, "0000:af:00.5", "both@n", Some("former"));
    node.claim(ClaimKind::Vf, "0000:af:00.6", "both@n", None);
    node.entry("entry@n", boot);
    node.entry("old@n", "former");
    fs::write(node.state.podmap().dir().join("damaged@n.json"), "{").unwrap();
    let unknown = NotOnNode::NotOnTheNode { is: String::new() };
    let evidence = LivenessEvidence::look(&node.state).unwrap();
    for (owner, part) in [
        ("vf@n", Some("claim of VF 0000:af:00.0")),
        ("rdma@n", Some("claim of the RDMA device of 0000:af:00.1")),
        ("former@n", None),
        ("both@n", Some("claim of VF 0000:af:00.6")),
        ("entry@n", Some("its pod map entry refers to network namespace")),
        ("old@n", None),
        ("damaged@n", Some("its pod map entry cannot be parsed")),
        ("nobody@n", None),
    ] {
        let why = evidence.of(&owner.parse().unwrap(), Err(&unknown));
        assert_eq!(why.is_some(), part.is_some(), "{owner} {why:?}");
        assert!(why.unwrap_or_default().starts_with(part.unwrap_or_default()), "{owner}");
    }
}

#[test]
fn claims_and_files_whose_owner_has_no_journal_are_orphans() {
    let node = Node::new();
    node.journal("live@n");
    // Its prefix is not its name.
    node.journal("gone@n2");
    for (index, owner) in ["live@n", "gone@n"].into_iter().enumerate() {
        node.claim(ClaimKind::Vf, &format!("0000:af:00.{index}"), owner, None);
        node.claim(ClaimKind::Rdma, &format!("0000:af:00.{index}"), owner, None);
        node.entry(owner, "x");
        fs::write(node.state.podmap().dir().join(format!(".{owner}.json.new")), "").unwrap();
        symlink(owner, node.state.notes().join(format!("uid-{index}@n"))).unwrap();
    }
    symlink("no attachment", node.state.notes().join("uid-9@n")).unwrap();
    let former = "00000000-0000-0000-0000-000000000000";
    fs::create_dir(node.state.root().join("ipam").join(former)).unwrap();
    for part in [ClaimKind::Vf, ClaimKind::Rdma] {
        let owners: Vec<_> =
            devices(&node.state, part).unwrap().iter().map(|claim| claim.owner().to_string()).collect();
        assert_eq!(owners, ["gone@n"]);
    }
    let orphans = orphaned_files(&node.state).unwrap();
    let mut texts: Vec<_> = orphans.iter().map(ToString::to_string).collect();
    texts.sort();
    let expected = [
        "address claims of boot 00000000-0000-0000-0000-000000000000",
        "link from a pod's interface to gone@n",
    ];
    assert_eq!(texts, [&expected[..], &["pod map entry of gone@n"; 2]].concat());
    for orphan in &orphans {
        assert_eq!(orphan.owner().is_none(), matches!(orphan, Orphan::Store(_)));
        assert!(orphan.release(&node.state, Instant::now()).unwrap());
    }
    assert_eq!(orphaned_files(&node.state).unwrap(), []);
    let device = Orphan::Device(devices(&node.state, ClaimKind::Vf).unwrap().remove(0));
    node.journal("gone@n");
    assert!(!device.release(&node.state, Instant::now()).unwrap(), "an ADD has begun");
    fs::remove_file(node.state.attachments().join("gone@n.sriov.journal")).unwrap();
    assert!(device.release(&node.state, Instant::now()).unwrap());
    assert_eq!(devices(&node.state, ClaimKind::Vf).unwrap(), []);
    let kept: Vec<_> = journals::paths(node.state.notes()).unwrap();
    assert_eq!(kept.len(), 2, "{kept:?}");
}

#[test]
fn quarantined_files_of_every_directory_are_listed() {
    let node = Node::new();
    let state = &node.state;
    let rdma = state.make_dir("rdma").unwrap();
    let quarantined = [
        state.attachments().join("a@n.sriov.journal.bad"),
        state.podmap().dir().join("a@n.json.bad.1"),
        state.masters().join("eth0.bad"),
        rdma.join("0000:af:00.1.bad"),
    ];
    quarantined.iter().for_each(|path| fs::write(path, "").unwrap());
    node.journal("b@n");
    assert_eq!(unreadable(state).unwrap(), quarantined);
}

#[test]
fn a_link_that_the_next_sandbox_replaced_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::at(dir.path());
    fs::create_dir_all(state.notes()).unwrap();
    let path = state.notes().join("91ab@net1");
    symlink("former@net1", &path).unwrap();
    let [orphan] = <[Orphan; 1]>::try_from(orphaned_files(&state).unwrap()).unwrap();

    fs::remove_file(&path).unwrap();
    symlink("next@net1", &path).unwrap();
    assert!(!orphan.release(&state, Instant::now()).unwrap());
    assert_eq!(attachment_in(&path), "next@net1".parse().ok());

    fs::remove_file(&path).unwrap();
    symlink("former@net1", &path).unwrap();
    assert!(orphan.release(&state, Instant::now()).unwrap());
    assert_eq!(path.symlink_metadata().unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_quarantined_record_of_a_master_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::at(dir.path());
    fs::create_dir_all(state.masters()).unwrap();
    fs::write(state.masters().join("eth0.100"), "{}").unwrap();
    fs::write(state.masters().join("eth0.101.bad"), "{").unwrap();
    assert_eq!(unreadable(&state).unwrap(), [state.masters().join("eth0.101.bad")]);
}

#[test]
fn an_address_whose_journal_was_written_after_the_scan_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::at(dir.path());
    let owner: Attachment = "c@n".parse().unwrap();
    let boot = boot_id().unwrap();
    LocalStore::open(dir.path(), boot).unwrap();
    let claim = dir.path().join("ipam").join(boot).join("claims/10.7.0.10");
    symlink("c@n", &claim).unwrap();
    let [(address, found)]: [_; 1] = addresses(&state).unwrap().try_into().unwrap();
    assert_eq!(found, owner);
    // An ADD of the attachment starts.
    fs::create_dir(state.attachments()).unwrap();
    let journal = state.attachments().join("c@n.silkrail-ipam.journal");
    fs::write(&journal, "").unwrap();
    let orphan = Orphan::Address(address, owner);
    assert!(!orphan.release(&state, Instant::now()).unwrap() && claim.is_symlink());
    fs::remove_file(journal).unwrap();
    assert!(orphan.release(&state, Instant::now()).unwrap() && !claim.is_symlink());
}

#[test]
fn a_thing_whose_journal_was_written_during_the_scan_is_no_orphan() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::at(dir.path());
    fs::create_dir(state.attachments()).unwrap();
    let owner: Attachment = "c@n".parse().unwrap();
    let scan = |starts: bool| {
        let is_there = |_: &Attachment| {
            if starts {
                fs::write(state.attachments().join("c@n.sriov.journal"), "").unwrap();
            }
            Ok(true)
        };
        retain_orphaned(&state, vec![owner.clone()], |owner| owner, is_there).unwrap()
    };
    assert_eq!(scan(false), std::slice::from_ref(&owner));
    assert!(scan(true).is_empty());
}
