//! The journal against a plain list, through random work, failing reverts and kills between any two steps.
//!
//! A kill is an unwinding that nobody sees: what the process would not have done is not done, and its lock goes.

use std::{
    fs::OpenOptions,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::PathBuf,
};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum JournalStep {
    /// Note a change and make it; or be killed before or after it is made.
    Make {
        name: usize,
        kill: Option<KillPoint>,
    },
    /// The change is noted and then refused.
    MakeFails {
        name: usize,
    },
    Note {
        name: usize,
    },
    /// Killed while the line was written: so many of its bytes are missing.
    TornNote {
        name: usize,
        missing: usize,
    },
    Complete,
    TornComplete {
        missing: usize,
    },
    /// The process ends, another one begins.
    Reopen,
    /// Take everything back while some changes cannot be; be killed at the n-th that is.
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
        2 => name.clone().prop_map(|name| JournalStep::Note { name }),
        2 => (name.clone(), missing.clone()).prop_map(|(name, missing)| JournalStep::TornNote { name, missing }),
        1 => Just(JournalStep::Complete),
        1 => missing.prop_map(|missing| JournalStep::TornComplete { missing }),
        2 => Just(JournalStep::Reopen),
        3 => (prop::collection::vec(name, 0..3), kill_revert)
            .prop_map(|(stuck, kill)| JournalStep::Revert { stuck, kill }),
    ]
}

/// Somebody else's, under a name that no change has.
const THEIRS: &str = "theirs";

struct JournalModel {
    _dir: tempfile::TempDir,
    path: PathBuf,
    node: JournalFixture,
    journal: Option<Journal<PutChange>>,
    /// What the journal must know, in order.
    noted: Vec<String>,
    complete: bool,
}

impl JournalModel {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (path, node) = (dir.path().join("j"), JournalFixture::default());
        node.present.borrow_mut().insert(THEIRS.into());
        let journal = Some(Journal::create(&path, head()).unwrap());
        Self { _dir: dir, path, node, journal, noted: Vec::new(), complete: false }
    }

    /// The journal as the process at work has it; after a kill, as the next one finds it.
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
                self.noted.push(NAMES[*name].into());
                let alive = killable(|| make(&mut journal, &self.node, NAMES[*name], *kill));
                self.journal = alive.map(|()| journal);
            }
            JournalStep::MakeFails { name } => {
                self.noted.push(NAMES[*name].into());
                let refused = journal
                    .record_and_apply::<(), _>(PutChange(NAMES[*name].into()), |_| Err(Error::Injected));
                assert!(matches!(refused, Err(Error::Injected)));
                self.journal = Some(journal);
            }
            JournalStep::Note { name } => {
                journal.record(PutChange(NAMES[*name].into())).unwrap();
                self.noted.push(NAMES[*name].into());
                self.journal = Some(journal);
            }
            JournalStep::TornNote { name, missing } => {
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

    /// Takes the end of the last line away, which began at `before`.
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
            None => assert!(self.path.exists(), "the journal went before its last change was taken back"),
            Some(Ok(())) => {
                assert!(!self.path.exists());
                (self.noted, self.complete) = (Vec::new(), false);
            }
            Some(Err(left)) => {
                assert!(self.path.exists());
                assert!(!left.is_empty() && left.iter().all(|left| left.why == "it is stuck"));
                let others = self.noted.iter().filter(|name| !stuck.contains(*name) && *name != "guard");
                let present = self.node.present.borrow();
                assert_eq!(others.filter(|name| present.contains(*name)).count(), 0, "it did not go on");
            }
        }
    }

    /// What is made is known, nothing else is touched, and the next process will see the same.
    fn check(&self) {
        let present = self.node.present.borrow();
        assert!(present.contains(THEIRS), "somebody else's was touched");
        let Ok(bytes) = fs::read(&self.path) else {
            assert!(self.noted.is_empty() && present.len() == 1, "made and not known: {present:?}");
            return;
        };
        let JournalContent { changes, complete, .. } = JournalContent::<PutChange>::parse(&bytes).unwrap();
        let known: Vec<_> = changes.into_iter().map(|change| change.0).collect();
        assert_eq!((&known, complete), (&self.noted, self.complete));
        let unknown = present.iter().find(|name| *name != THEIRS && !known.contains(name));
        assert_eq!(unknown, None, "made and not known");
    }

    /// Whatever happened, one more revert leaves the node as it was.
    fn ends_clean(mut self) {
        self.journal().revert(&self.node).unwrap();
        assert_eq!(self.node.present.borrow().iter().collect::<Vec<_>>(), [THEIRS]);
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

/// Ends the process, as far as the journal can see.
struct KilledAtStep;

fn kill_at(here: bool) {
    if here {
        resume_unwind(Box::new(KilledAtStep));
    }
}

/// What `work` returns; `None` if it was killed.
fn killable<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(why) if why.is::<KilledAtStep>() => None,
        Err(why) => resume_unwind(why),
    }
}

/// Counts down to the revert that a kill was ordered for.
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
    fn the_journal_knows_what_was_made(steps in prop::collection::vec(step(), 1..30)) {
        let mut world = JournalModel::new();
        for step in &steps {
            world.take(step);
            world.check();
        }
        world.ends_clean();
    }
}
