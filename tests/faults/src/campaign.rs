//! A campaign: one fault at every point of one call, followed by one kind of recovery.

use std::{fmt, path::Path, time::Duration};

use testkit::{Answer, Binaries, Call, Share, Snapshot};

use crate::{
    fault::InjectedFault,
    plan::PluginName,
    remedy::{Recovery, succeeded},
    strace::{self, FaultPoint},
    subject::PluginUnderTest,
    table::CampaignRow,
};

/// How long the kernel may take to finish work in the background, such as deleting a namespace, beside other machines.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(60);

/// The call that a fault is injected into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultedCall {
    Add,
    Del,
}

/// A combination of plugin, call, fault and recovery: one row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Campaign {
    pub(crate) plugin: PluginName,
    pub(crate) verb: FaultedCall,
    pub(crate) fault: InjectedFault,
    pub(crate) remedy: Recovery,
}

/// The result of a round.
struct RoundOutcome {
    /// Whether the call reached the point.
    hit: bool,
    /// The objects that remain, or the error; `None` if the node is as before.
    leak: Option<String>,
}

/// Runs the campaigns of one call of one plugin: its points are recorded once. The fault of each is injected at its share of
/// the points, at one at least.
pub(crate) fn run_all(campaigns: &[Campaign], release: &Binaries, share: Share) -> Vec<CampaignRow> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let plugin = campaigns[0].plugin;
    let mut subject = PluginUnderTest::new(plugin);
    let mut before = subject.node().snapshot();
    let points = campaigns[0].points(&mut subject, release, log.path());
    let mut rows = Vec::new();
    for campaign in campaigns {
        let mut row = CampaignRow::new(campaign);
        for index in share.of_list(&campaign.to_string(), points.len()) {
            // How often some system calls are made differs from run to run. Without this one, the fault is at one before it.
            for point in points[..=index].iter().rev().filter(|point| campaign.fault.can_be_at(point)) {
                let RoundOutcome { hit, leak } =
                    campaign.round(&mut subject, &before, release, point, log.path());
                row.points += usize::from(hit);
                if let Some(leak) = leak {
                    let leak = format!("{campaign}, at {point}:\n{leak}");
                    eprintln!("LEAK: {leak}\n");
                    row.leaks.push(leak);
                    subject = subject.repair(plugin);
                    before = subject.node().snapshot();
                }
                if hit {
                    break;
                }
            }
        }
        eprintln!("{row}");
        rows.push(row);
    }
    rows
}

impl Campaign {
    /// The points of the call, recorded without a fault.
    fn points(&self, subject: &mut PluginUnderTest, release: &Binaries, log: &Path) -> Vec<FaultPoint> {
        let call = subject.ready().of_build(release);
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
        let call = subject.ready().of_build(release);
        if self.verb == FaultedCall::Del {
            call.add().ok();
        }
        let faulty = self.fault.at(&call, point, log);
        let answer = match self.verb {
            FaultedCall::Add => faulty.add(),
            FaultedCall::Del => faulty.del(),
        };
        let hit = self.was_hit(&answer, log);
        let recovered = self.recover(subject, &call, &answer);
        let chain = subject.done();
        let difference = difference(subject, before);
        let failure = recovered.and(chain).err().unwrap_or_default();
        let clean = failure.is_empty() && difference.is_empty();
        RoundOutcome { hit, leak: (!clean).then(|| format!("{failure}\n{difference}after {answer:#?}")) }
    }

    fn was_hit(&self, answer: &Answer, log: &Path) -> bool {
        match self.fault {
            InjectedFault::Kill => answer.was_killed(),
            InjectedFault::Error(_) => strace::was_injected(log),
        }
    }

    /// Checks the result of the faulty call, and makes the calls of a runtime that follow it.
    ///
    /// # Errors
    /// The check or the call that failed.
    fn recover(&self, subject: &mut PluginUnderTest, call: &Call, answer: &Answer) -> Result<(), String> {
        let stdout = answer.stdout.trim();
        match (self.verb, answer.status.success()) {
            // A call that reports success must be complete.
            (FaultedCall::Add, true) => {
                let result = serde_json::from_str(stdout).map_err(|e| format!("the result: {e}"))?;
                succeeded("CHECK", &call.check_after(&result))?;
                succeeded("DEL", &call.del())
            }
            // After a successful DEL, a runtime makes no further call.
            (FaultedCall::Del, true) => Ok(()),
            (_, false) => {
                self.remedy.apply(subject, call)?;
                if has_reason(answer) { Ok(()) } else { Err("it failed without a reason".into()) }
            }
        }
    }
}

/// Whether a failure that the plugin detected has a reason on standard output, or on standard error if writing to
/// standard output failed.
fn has_reason(answer: &Answer) -> bool {
    answer.status.code() != Some(1)
        || serde_json::from_str::<serde_json::Value>(&answer.stdout).is_ok()
        || answer.stderr.contains("standard output")
}

/// The difference from the former snapshot, after the kernel has finished its work in the background.
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
