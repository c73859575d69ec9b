//! One fault at every point of one call, put right in one way.

use std::{fmt, path::Path, time::Duration};

use testkit::{Answer, Binaries, Call, Snapshot};

use crate::{
    fault::InjectedFault,
    plan::PluginName,
    remedy::{Recovery, succeeded},
    strace::{self, FaultPoint},
    subject::PluginUnderTest,
    table::CampaignRow,
};

/// How long the kernel may take to be done with what it does in the background.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(3);

/// The call that a fault is injected into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultedCall {
    Add,
    Del,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Campaign {
    pub(crate) plugin: PluginName,
    pub(crate) verb: FaultedCall,
    pub(crate) fault: InjectedFault,
    pub(crate) remedy: Recovery,
}

/// What became of a round.
struct RoundOutcome {
    /// Whether the call got as far as the point.
    hit: bool,
    /// What is left of it, or went wrong.
    leak: Option<String>,
}

impl Campaign {
    /// Injects the fault at every `every`-th point, beginning with one that depends on `index`.
    pub(crate) fn run(&self, release: &Binaries, every: usize, index: usize) -> CampaignRow {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut subject = PluginUnderTest::new(self.plugin);
        let mut before = subject.node().snapshot();
        let points = self.points(&mut subject, release, log.path());
        let mut row = CampaignRow::new(self);
        let (first, step) = self.sample(every, index);
        for point in points.iter().skip(first).step_by(step) {
            let RoundOutcome { hit, leak } = self.round(&mut subject, &before, release, point, log.path());
            row.points += usize::from(hit);
            if let Some(leak) = leak {
                let leak = format!("{self}, at {point}:\n{leak}");
                eprintln!("LEAK: {leak}\n");
                row.leaks.push(leak);
                subject = subject.repair(self.plugin);
                before = subject.node().snapshot();
            }
            // Of a journal's steps nobody knows how many there are.
            if self.fault.is_of_the_journal() && !hit {
                break;
            }
        }
        row
    }

    /// The first point that is taken, and the distance from each to the next. Of a journal's few steps, more are.
    fn sample(&self, every: usize, index: usize) -> (usize, usize) {
        match self.fault.is_of_the_journal() {
            true => (0, (every / 4).max(1)),
            false => (index % every.max(1), every.max(1)),
        }
    }

    /// The call that the fault is injected into: the release executable's, unless only the debug one can do it.
    fn call(&self, subject: &mut PluginUnderTest, release: &Binaries) -> Call {
        let call = subject.ready();
        if self.fault.is_of_the_journal() { call } else { call.of_build(release) }
    }

    /// The points of a call that nothing is injected into.
    fn points(&self, subject: &mut PluginUnderTest, release: &Binaries, log: &Path) -> Vec<FaultPoint> {
        if self.fault.is_of_the_journal() {
            return (1..1000).map(|nth| FaultPoint { name: String::new(), nth }).collect();
        }
        let call = self.call(subject, release);
        let recorded = call.clone().under(&strace::record(log));
        match self.verb {
            FaultedCall::Add => {
                recorded.add().ok();
                let points = strace::points(log);
                call.del().done();
                subject.done().unwrap();
                points
            }
            FaultedCall::Del => {
                call.add().ok();
                recorded.del().done();
                subject.done().unwrap();
                strace::points(log)
            }
        }
    }

    fn round(
        &self,
        subject: &mut PluginUnderTest,
        before: &Snapshot,
        release: &Binaries,
        point: &FaultPoint,
        log: &Path,
    ) -> RoundOutcome {
        let call = self.call(subject, release);
        if self.verb == FaultedCall::Del {
            call.add().ok();
        }
        let faulty = self.fault.at(&call, point, log);
        let answer = match self.verb {
            FaultedCall::Add => faulty.add(),
            FaultedCall::Del => faulty.del(),
        };
        let hit = self.was_hit(&answer, log);
        let put_right = self.put_right(subject, &call, &answer);
        let chain = subject.done();
        let difference = difference(subject, before);
        let failure = put_right.and(chain).err().unwrap_or_default();
        let clean = failure.is_empty() && difference.is_empty();
        RoundOutcome { hit, leak: (!clean).then(|| format!("{failure}\n{difference}after {answer:#?}")) }
    }

    fn was_hit(&self, answer: &Answer, log: &Path) -> bool {
        match self.fault {
            InjectedFault::JournalKill | InjectedFault::Kill => answer.was_killed(),
            InjectedFault::JournalError => !answer.status.success(),
            InjectedFault::Error(_) => strace::was_injected(log),
        }
    }

    /// Judges the answer and does what a runtime does next.
    ///
    /// # Errors
    /// What is wrong.
    fn put_right(&self, subject: &mut PluginUnderTest, call: &Call, answer: &Answer) -> Result<(), String> {
        let said = answer.stdout.trim();
        match (self.verb, answer.status.success()) {
            // What says that it is done is done.
            (FaultedCall::Add, true) => {
                let result = serde_json::from_str(said).map_err(|e| format!("the result: {e}"))?;
                succeeded("CHECK", &call.check_after(&result))?;
                succeeded("DEL", &call.del())
            }
            // A runtime that is told so never asks again.
            (FaultedCall::Del, true) => Ok(()),
            (_, false) => {
                self.remedy.apply(subject, call)?;
                if says_why(answer) { Ok(()) } else { Err("it failed and did not say why".into()) }
            }
        }
    }
}

/// Whether a failure that the plugin itself noticed is explained: on standard output, unless that is what failed.
fn says_why(answer: &Answer) -> bool {
    answer.status.code() != Some(1)
        || serde_json::from_str::<serde_json::Value>(&answer.stdout).is_ok()
        || answer.stderr.contains("standard output")
}

/// What differs from before, once the kernel is done.
fn difference(subject: &PluginUnderTest, before: &Snapshot) -> String {
    let deadline = std::time::Instant::now() + KERNEL_TIMEOUT;
    loop {
        let difference = subject.node().snapshot().difference(before);
        if difference.is_empty() || std::time::Instant::now() > deadline {
            return difference;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl fmt::Display for FaultedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
        })
    }
}

impl fmt::Display for Campaign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}, {}", self.plugin.name(), self.verb, self.fault, self.remedy)
    }
}
