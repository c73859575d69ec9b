//! Compares the journal with a plain list: random operations, failing reverts, and kills between any two steps.
//!
//! A kill is an unwinding panic without a message: the remaining steps do not happen, and the lock is released.

use std::{
    fs::OpenOptions,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::PathBuf,
};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum JournalStep {
    /// Record a change and make it, or be killed before or after it is made.
    Make {
        name: usize,
        kill: Option<KillPoint>,
    },
    /// The change is recorded, and making it fails.
    MakeFails {
        name: usize,
    },
    Record {
        name: usize,
    },
    /// Killed while the line was written: `missing` of its bytes are not in the file.
    TornRecord {
        name: usize,
        missing: usize,
    },
    Complete,
    TornComplete {
        missing: usize,
    },
    /// The process ends, another one starts.
    Reopen,
    /// Revert everything while the reverts of `stuck` fail, with an optional kill at the n-th successful revert.
    Revert {
        stuck: Vec<usize>,
        kill: Option<(usize, KillPoint)>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum KillPoint {
    Before,
    After,
}

const NAMES: [&str; 5] = ["guard", "a", "b", "a name that is longer than the others", "ä\n\"\\"];

fn step() -> impl Strategy<Value = JournalStep> {
    let (name, missing) = (0..NAMES.len(), 1..80_usize);
    let moment = prop_oneof![Just(KillPoint::Before), Just(KillPoint::After)];
    let kill = prop::option::weighted(0.3, moment.clone());
    let kill_revert = prop::option::weighted(0.5, (0..6_usize, moment));
    prop_oneof![
        6 => (name.clone(), kill).prop_map(|(name, kill)| JournalStep::Make { name, kill }),
        1 => name.clone().prop_map(|name| JournalStep::MakeFails { name }),
        2 => name.clone().prop_map(|name| JournalStep::Record { name }),
        2 => (name.clone(), missing.clone()).prop_map(|(name, missing)| JournalStep::TornRecord { name, missing }),
        1 => Just(JournalStep::Complete),
        1 => missing.prop_map(|missing| JournalStep::TornComplete { missing }),
        2 => Just(JournalStep::Reopen),
        3 => (prop::collection::vec(name, 0..3), kill_revert)
            .prop_map(|(stuck, kill)| JournalStep::Revert { stuck, kill }),
    ]
}

/// A name of another owner, which no change uses.
const FOREIGN: &str = "foreign";

struct JournalModel {
    _dir: tempfile::TempDir,
    path: PathBuf,
    node: JournalFixture,
    journal: Option<Journal<PutChange>>,
    /// The changes that the journal must contain, in order.
    recorded: Vec<String>,
    complete: bool,
}

impl JournalModel {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (path, node) = (dir.path().join("j"), JournalFixture::default());
        node.present.borrow_mut().insert(FOREIGN.into());
        let journal = Some(Journal::create(&path, head()).unwrap());
        Self { _dir: dir, path, node, journal, recorded: Vec::new(), complete: false }
    }

    /// The open journal; after a kill, the one that the next process opens.
    fn journal(&mut self) -> Journal<PutChange> {
        self.journal.take().unwrap_or_else(|| {
            let found = Journal::open(&self.path, soon()).unwrap();
            found.unwrap_or_else(|| Journal::create(&self.path, head()).unwrap())
        })
    }

    fn take(&mut self, step: &JournalStep) {
        let mut journal = self.journal();
        match step {
            JournalStep::Make { name, kill } => {
                self.recorded.push(NAMES[*name].into());
                let alive = killable(|| make(&mut journal, &self.node, NAMES[*name], *kill));
                self.journal = alive.map(|()| journal);
            }
            JournalStep::MakeFails { name } => {
                self.recorded.push(NAMES[*name].into());
                let refused = journal
                    .record_and_apply::<(), _>(PutChange(NAMES[*name].into()), |_| Err(Error::Injected));
                assert!(matches!(refused, Err(Error::Injected)));
                self.journal = Some(journal);
            }
            JournalStep::Record { name } => {
                journal.record(PutChange(NAMES[*name].into())).unwrap();
                self.recorded.push(NAMES[*name].into());
                self.journal = Some(journal);
            }
            JournalStep::TornRecord { name, missing } => {
                let before = self.length();
                journal.record(PutChange(NAMES[*name].into())).unwrap();
                self.tear(before, *missing);
            }
            JournalStep::Complete => {
                journal.complete().unwrap();
                self.complete = true;
                self.journal = Some(journal);
            }
            JournalStep::TornComplete { missing } => {
                let before = self.length();
                journal.complete().unwrap();
                self.tear(before, *missing);
            }
            JournalStep::Reopen => drop(journal),
            JournalStep::Revert { stuck, kill } => self.revert(journal, stuck, *kill),
        }
    }

    fn length(&self) -> u64 {
        fs::metadata(&self.path).unwrap().len()
    }

    /// Truncates the last line, which begins at `before`, by `missing` bytes.
    fn tear(&self, before: u64, missing: usize) {
        let torn = self.length().saturating_sub(missing as u64).max(before);
        OpenOptions::new().write(true).open(&self.path).unwrap().set_len(torn).unwrap();
    }

    fn revert(&mut self, journal: Journal<PutChange>, stuck: &[usize], kill: Option<(usize, KillPoint)>) {
        *self.node.stuck.borrow_mut() = stuck.iter().map(|name| NAMES[*name].to_owned()).collect();
        *self.node.kill.borrow_mut() = kill;
        let alive = killable(|| journal.revert(&self.node));
        self.node.kill.take();
        let stuck = self.node.stuck.take();
        match alive {
            None => {
                assert!(self.path.exists(), "the journal was removed before its last change was reverted")
            }
            Some(Ok(())) => {
                assert!(!self.path.exists());
                (self.recorded, self.complete) = (Vec::new(), false);
            }
            Some(Err(left)) => {
                assert!(self.path.exists());
                assert!(!left.is_empty() && left.iter().all(|left| left.why == "it is stuck"));
                let others = self.recorded.iter().filter(|name| !stuck.contains(*name) && *name != "guard");
                let present = self.node.present.borrow();
                assert_eq!(others.filter(|name| present.contains(*name)).count(), 0, "it did not go on");
            }
        }
    }

    /// Every change on the node is in the journal, nothing else changed, and the file agrees with the model.
    fn check(&self) {
        let present = self.node.present.borrow();
        assert!(present.contains(FOREIGN), "the name of another owner was removed");
        let Ok(bytes) = fs::read(&self.path) else {
            assert!(self.recorded.is_empty() && present.len() == 1, "made and not recorded: {present:?}");
            return;
        };
        let JournalContent { changes, complete, .. } = JournalContent::<PutChange>::parse(&bytes).unwrap();
        let known: Vec<_> = changes.into_iter().map(|change| change.0).collect();
        assert_eq!((&known, complete), (&self.recorded, self.complete));
        let unknown = present.iter().find(|name| *name != FOREIGN && !known.contains(name));
        assert_eq!(unknown, None, "made and not recorded");
    }

    /// One more revert restores the former state of the node.
    fn ends_clean(mut self) {
        self.journal().revert(&self.node).unwrap();
        assert_eq!(self.node.present.borrow().iter().collect::<Vec<_>>(), [FOREIGN]);
        assert!(!self.path.exists());
    }
}

/// Makes a change, and is killed before or after it.
fn make(journal: &mut Journal<PutChange>, node: &JournalFixture, name: &str, kill: Option<KillPoint>) {
    let made = journal.record_and_apply(PutChange(name.into()), |change| {
        kill_at(kill == Some(KillPoint::Before));
        node.present.borrow_mut().insert(change.0.clone());
        kill_at(kill == Some(KillPoint::After));
        Ok::<_, Error>(())
    });
    made.unwrap();
}

/// The payload of the panic that stands for a kill.
struct KilledAtStep;

fn kill_at(here: bool) {
    if here {
        resume_unwind(Box::new(KilledAtStep));
    }
}

/// Returns the result of `work`; `None` if it was killed.
fn killable<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(why) if why.is::<KilledAtStep>() => None,
        Err(why) => resume_unwind(why),
    }
}

/// Counts reverts, and kills at the one that `node.kill` selects.
pub(super) fn reverting(node: &JournalFixture, revert: impl FnOnce()) {
    let order = *node.kill.borrow();
    let now = matches!(order, Some((0, _)));
    kill_at(now && order == Some((0, KillPoint::Before)));
    revert();
    kill_at(now);
    *node.kill.borrow_mut() = order.map(|(left, moment)| (left.saturating_sub(1), moment));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_journal_contains_every_change_that_was_made(steps in prop::collection::vec(step(), 1..30)) {
        let mut world = JournalModel::new();
        for step in &steps {
            world.take(step);
            world.check();
        }
        world.ends_clean();
    }
}
