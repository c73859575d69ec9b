//! Tests on a node that is a set of names, with changes that insert a name.

mod model;

use std::{cell::RefCell, collections::BTreeSet, fmt, fs, thread, time::Duration};

use nix::{
    mount::{MsFlags, mount},
    sched::{self, CloneFlags},
};
use serde::{Deserialize, Serialize};

use super::*;
use crate::JournalStatus;

#[derive(Default)]
struct JournalFixture {
    present: RefCell<BTreeSet<String>>,
    /// The changes whose revert fails.
    stuck: RefCell<BTreeSet<String>>,
    /// The number of reverts before the kill, and whether it is before or after that revert.
    kill: RefCell<Option<(usize, model::KillPoint)>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct PutChange(String);

impl fmt::Display for PutChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "put {}", self.0)
    }
}

impl Change for PutChange {
    type Node = JournalFixture;
    type Error = String;

    fn revert(&self, node: &JournalFixture) -> Result<(), String> {
        if node.stuck.borrow().contains(&self.0) {
            return Err("it is stuck".into());
        }
        model::reverting(node, || {
            node.present.borrow_mut().remove(&self.0);
        });
        Ok(())
    }

    fn verify(&self, node: &JournalFixture) -> Result<(), String> {
        let present = node.present.borrow().contains(&self.0);
        if present { Ok(()) } else { Err(format!("{} is missing", self.0)) }
    }

    fn step(&self) -> &'static str {
        "put"
    }

    fn revert_last(&self) -> bool {
        self.0 == "guard"
    }

    fn survives_reboot(&self) -> bool {
        self.0 == "file"
    }
}

fn head() -> JournalHeader {
    JournalHeader {
        version: JournalHeader::VERSION,
        plugin: "test".into(),
        attachment: "f00d@net1".parse().unwrap(),
        network: "rail0".into(),
        netns_path: "/run/netns/pod".into(),
        netns: None,
        boot_id: boot_id().unwrap().into(),
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

fn put(journal: &mut Journal<PutChange>, node: &JournalFixture, name: &str) -> Result<(), Error> {
    journal.record_and_apply(PutChange(name.into()), |change| {
        node.present.borrow_mut().insert(change.0.clone());
        Ok(())
    })
}

fn open(path: &Path) -> Journal<PutChange> {
    Journal::open(path, soon()).unwrap().unwrap()
}

#[test]
fn a_failing_add_leaves_nothing() {
    let (dir, node) = (tempfile::tempdir().unwrap(), JournalFixture::default());
    let path = dir.path().join("j");
    let journal = Journal::create(&path, head()).unwrap();
    let body = |journal: &mut Journal<_>| {
        put(journal, &node, "a")?;
        put(journal, &node, "b")?;
        Err(Error::Injected)
    };
    let mut called = false;
    let failed = journal.run_or_revert::<(), Error>(&node, body, || {
        called = true;
        assert_eq!(node.present.borrow().len(), 2);
    });
    assert!(called, "before_revert was not called");
    assert!(failed.unwrap_err().left.is_empty());
    assert!(node.present.borrow().is_empty());
    assert!(!path.exists());
}

#[test]
fn a_killed_add_is_reverted_by_the_next_call() {
    let (dir, node) = (tempfile::tempdir().unwrap(), JournalFixture::default());
    let path = dir.path().join("j");
    let mut journal = Journal::create(&path, head()).unwrap();
    put(&mut journal, &node, "a").unwrap();
    journal.record(PutChange("never made".into())).unwrap();
    drop(journal);
    let journal = open(&path);
    assert!(!journal.is_complete());
    journal.revert(&node).unwrap();
    assert!(node.present.borrow().is_empty());
    assert!(Journal::<PutChange>::open(&path, soon()).unwrap().is_none());
}

#[test]
fn a_line_for_which_there_is_no_space_leaves_those_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path();
    thread::scope(|scope| {
        // A mount that only this thread has.
        scope.spawn(|| {
            #[expect(clippy::disallowed_methods, reason = "the thread ends afterwards")]
            sched::unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            mount(Some("tmpfs"), small, Some("tmpfs"), MsFlags::empty(), Some("nr_blocks=1")).unwrap();
            let (path, node) = (small.join("j"), JournalFixture::default());
            let mut journal = Journal::create(&path, head()).unwrap();
            let mut made = 0;
            while put(&mut journal, &node, &format!("{made:0>200}")).is_ok() {
                made += 1;
            }
            drop(journal);
            assert_eq!(node.present.borrow().len(), made);
            assert!(made > 3, "{made}");
            open(&path).revert(&node).unwrap();
            assert!(node.present.borrow().is_empty());
        });
    });
}

#[test]
fn after_a_reboot_only_changes_in_files_are_reverted() {
    let (dir, node) = (tempfile::tempdir().unwrap(), JournalFixture::default());
    let path = dir.path().join("j");
    let head = JournalHeader { boot_id: "of another boot".into(), ..head() };
    let mut journal = Journal::create(&path, head).unwrap();
    put(&mut journal, &node, "link").unwrap();
    put(&mut journal, &node, "file").unwrap();
    journal.revert(&node).unwrap();
    assert_eq!(node.present.borrow().iter().collect::<Vec<_>>(), ["link"]);
    assert!(!path.exists());
}

#[test]
fn check_reports_the_missing_change() {
    let (dir, node) = (tempfile::tempdir().unwrap(), JournalFixture::default());
    let mut journal = Journal::create(&dir.path().join("j"), head()).unwrap();
    put(&mut journal, &node, "a").unwrap();
    put(&mut journal, &node, "b").unwrap();
    journal.verify(&node).unwrap();
    for (missing, first) in [("b", "b is missing"), ("a", "a is missing")] {
        node.present.borrow_mut().remove(missing);
        assert_eq!(journal.verify(&node).unwrap_err(), first);
    }
}

#[test]
fn an_add_that_succeeds_is_complete_and_one_that_fails_says_what_is_left() {
    let (dir, node) = (tempfile::tempdir().unwrap(), JournalFixture::default());
    let path = dir.path().join("j");
    let create = || Journal::create(&path, head()).unwrap();
    let done = create().run_or_revert::<_, Error>(
        &node,
        |journal| put(journal, &node, "a").map(|()| 7),
        || panic!(),
    );
    assert_eq!((done.unwrap(), node.present.borrow().len()), (7, 1));
    let journal = open(&path);
    assert!(journal.is_complete() && journal.changes().len() == 1);
    let mut steps = StepTimes::default();
    journal.revert_timed(&node, &mut steps).unwrap();
    assert!(steps.to_string().starts_with("put="), "{steps}");
    for name in ["b", "c", "d"] {
        node.stuck.borrow_mut().insert(name.into());
    }
    node.stuck.borrow_mut().remove("c");
    let body = |journal: &mut Journal<_>| {
        for name in ["b", "c", "d"] {
            put(journal, &node, name)?;
        }
        // It is recorded although making it fails, and reverted first.
        journal.record_and_apply(PutChange("e".into()), |_| Err(Error::Injected))
    };
    let failed = create().run_or_revert::<(), Error>(&node, body, || {}).unwrap_err();
    assert!(matches!(failed.cause, Error::Injected));
    let left: Vec<_> = failed.left.iter().map(|left| left.change.as_str()).collect();
    assert_eq!(left, ["put d", "put b"], "the newest first, and the others are reverted");
    assert_eq!(node.present.borrow().iter().collect::<Vec<_>>(), ["b", "d"]);
    let journal = open(&path);
    assert!(!journal.is_complete() && journal.changes().len() == 4);
}

#[test]
fn failed_reverts_stay_recorded_with_their_guard() {
    let (dir, node) = (tempfile::tempdir().unwrap(), JournalFixture::default());
    let path = dir.path().join("j");
    let mut journal = Journal::create(&path, head()).unwrap();
    for name in ["guard", "a", "b"] {
        put(&mut journal, &node, name).unwrap();
    }
    node.stuck.borrow_mut().insert("a".into());
    let left = journal.revert(&node).unwrap_err();
    assert_eq!(left, [RevertFailure { change: "put a".into(), why: "it is stuck".into() }]);
    assert_eq!(node.present.borrow().iter().collect::<Vec<_>>(), ["a", "guard"]);
    node.stuck.borrow_mut().clear();
    open(&path).revert(&node).unwrap();
    assert!(node.present.borrow().is_empty());
}

#[test]
fn a_torn_last_line_is_ignored_and_removed() {
    let (dir, node) = (tempfile::tempdir().unwrap(), JournalFixture::default());
    let path = dir.path().join("j");
    let mut journal = Journal::create(&path, head()).unwrap();
    put(&mut journal, &node, "a").unwrap();
    drop(journal);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"change\":\"ha");
    fs::write(&path, bytes).unwrap();
    let mut journal = open(&path);
    assert_eq!(journal.changes().len(), 1);
    assert_eq!(journal.length, fs::metadata(&path).unwrap().len(), "to which a full disk cuts it");
    put(&mut journal, &node, "b").unwrap();
    drop(journal);
    assert_eq!(open(&path).changes().len(), 2);
}

#[test]
fn a_change_that_would_make_the_journal_too_long_to_be_read_is_not_made() {
    let (dir, node) = (tempfile::tempdir().unwrap(), JournalFixture::default());
    let path = dir.path().join("j");
    let mut journal = Journal::create(&path, head()).unwrap();
    put(&mut journal, &node, "a").unwrap();
    let error = put(&mut journal, &node, &"b".repeat(1 << 20)).unwrap_err().to_string();
    assert!(error.contains("longer than 1048576 bytes") && error.contains("configuration"), "{error}");
    assert_eq!(node.present.borrow().len(), 1);
    drop(journal);
    assert_eq!(open(&path).changes().len(), 1);
    // One of an earlier version is not cut.
    let long = [fs::read(&path).unwrap(), vec![b' '; 1 << 20], b"\n".to_vec()].concat();
    fs::write(&path, &long).unwrap();
    let error = Journal::<PutChange>::open(&path, soon()).unwrap_err().to_string();
    assert!(error.contains("longer than 1048576 bytes"), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), long.len() as u64);
}

#[test]
fn unreadable_and_future_files_are_quarantined_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let future = JournalHeader { version: JournalHeader::VERSION + 1, ..head() };
    let future = format!("{}\n{{\"new\":1}}\n", serde_json::to_string(&future).unwrap());
    let odd = format!("{}\n{{\"change\":7}}\n", serde_json::to_string(&head()).unwrap());
    let contents = ["", "garbage", "garbage\n", "{\"version\":99}\n", "{}\n", "\0\0\n", &future, &odd];
    let path = dir.path().join("j");
    let mut kept = Vec::new();
    for content in contents {
        fs::write(&path, content).unwrap();
        let error = Journal::<PutChange>::open(&path, soon()).unwrap_err();
        let Error::Quarantined { quarantine, .. } = error else { panic!("{content:?}: {error}") };
        assert!(!path.exists());
        kept.push(quarantine);
    }
    for (content, quarantine) in contents.iter().zip(kept) {
        assert_eq!(fs::read_to_string(quarantine).unwrap(), *content);
    }
}

#[test]
fn a_journal_is_opened_once_and_created_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let held = Journal::<PutChange>::create(&path, head()).unwrap();
    assert!(matches!(
        Journal::<PutChange>::create(&path, head()),
        Err(Error::File(statefile::Error::Exists { .. }))
    ));
    assert!(matches!(
        Journal::<PutChange>::open(&path, soon()),
        Err(Error::File(statefile::Error::Busy { .. }))
    ));
    drop(held);
    assert!(Journal::<PutChange>::open(&path, soon()).unwrap().is_some());
}

/// Returns how many times this process has a file open.
fn times_open(inode: u64) -> usize {
    let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
    files.filter(|fd| fs::metadata(fd.path()).is_ok_and(|meta| meta.ino() == inode)).count()
}

#[test]
fn a_waiting_open_gets_the_journal_that_replaced_the_removed_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let old = Journal::<PutChange>::create(&path, head()).unwrap();
    let inode = old.inode().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let waited = Journal::<PutChange>::open(&path, Instant::now() + Duration::from_secs(30));
            waited.unwrap().unwrap().head().network.clone()
        });
        while times_open(inode) < 2 {
            std::thread::yield_now();
        }
        // A DEL, followed by an ADD: the lock is held until both are done.
        statefile::remove(&path).unwrap();
        let new =
            Journal::<PutChange>::create(&path, JournalHeader { network: "new".into(), ..head() }).unwrap();
        drop((old, new));
        assert_eq!(waiting.join().unwrap(), "new");
    });
}

#[test]
fn invariant_10_another_boot_is_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let old = JournalHeader { boot_id: "00000000-0000-0000-0000-000000000000".into(), ..head() };
    drop(Journal::<PutChange>::create(&path, old).unwrap());
    assert!(open(&path).is_from_earlier_boot().unwrap());
}

#[test]
fn a_status_reports_the_lock_and_leaves_the_file_unchanged() {
    let (dir, node) = (tempfile::tempdir().unwrap(), JournalFixture::default());
    let path = dir.path().join("j");
    let status = || JournalStatus::read_status(&path).unwrap().unwrap();
    assert!(JournalStatus::read_status(&path).unwrap().is_none());
    let mut journal = Journal::create(&path, head()).unwrap();
    put(&mut journal, &node, "a").unwrap();
    assert_eq!(
        (status().complete, status().at_work, status().inode),
        (false, true, journal.inode().unwrap())
    );
    drop(journal);
    assert_eq!((status().complete, status().at_work), (false, false));
    let mut journal = open(&path);
    journal.complete().unwrap();
    drop(journal);
    assert_eq!((status().complete, status().at_work, status().head), (true, false, head()));
    let torn = [fs::read(&path).unwrap(), b"{\"cha".to_vec()].concat();
    fs::write(&path, &torn).unwrap();
    assert!(status().complete);
    assert_eq!(fs::read(&path).unwrap(), torn);
}

#[test]
fn the_status_of_a_malformed_file_is_an_error_and_the_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    for (content, why) in
        [("", "no complete line"), ("x\n", "header"), ("{\"version\":9}\n", "newer Silkrail")]
    {
        fs::write(&path, content).unwrap();
        let error = JournalStatus::read_status(&path).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}
