//! What was found, done and left, to people and as JSON.

use std::io::Write;

use bootstrap::{HardwareError, PfPlan, Plan, Refusal};
use rdma::NetnsMode;
use serde::{Serialize, Serializer};

use crate::{
    exit::{Exit, Failure},
    json,
    mode::{self, SetReport},
};

/// What was found, done and left.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(super) dry_run: bool,
    /// The RDMA mode, if the file speaks of it.
    pub(super) rdma_mode: Option<ModeReport>,
    /// What was to be done.
    #[serde(rename = "pfs")]
    pub(super) plan: Plan,
    /// What the file names and the node does not have.
    pub(super) missing: Vec<String>,
    /// What failed.
    #[serde(serialize_with = "failures")]
    pub(super) failures: Vec<bootstrap::Failure>,
    /// What is still to be done.
    pub(super) left: Plan,
}

/// The RDMA mode beside the wanted one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModeReport {
    pub(super) wanted: NetnsMode,
    now: Option<NetnsMode>,
    next_boot: NetnsMode,
    /// What was done about it; nothing if it was right.
    pub(super) done: Option<SetReport>,
}

impl ModeReport {
    pub(super) fn of(wanted: NetnsMode, state: &mode::State) -> Self {
        Self { wanted, now: state.mode, next_boot: state.next_boot.mode, done: None }
    }

    /// Whether the node has the mode, and will have it after the next boot.
    pub(super) fn is_right(&self) -> bool {
        (self.now, self.next_boot) == (Some(self.wanted), self.wanted)
    }

    fn print(&self, dry_run: bool, out: &mut dyn Write) -> Result<(), Failure> {
        let (wanted, next) = (self.wanted, self.next_boot);
        let now = self.now.map_or("none".to_owned(), |now| now.to_string());
        match &self.done {
            Some(done) => done.print(false, out)?,
            None if self.is_right() => writeln!(out, "RDMA mode: {wanted}: nothing to do")?,
            None if dry_run => {
                writeln!(
                    out,
                    "RDMA mode: to be set to {wanted}; it is {now}, and {next} after the next boot"
                )?;
            }
            None => {}
        }
        Ok(())
    }
}

impl Report {
    /// Whether the node is now as the file says.
    pub(super) fn is_right(&self) -> bool {
        self.failures.is_empty()
            && self.plan.refusals().next().is_none()
            && self.missing.is_empty()
            && self.left.is_empty()
            && !self.needs_reboot()
    }

    fn needs_reboot(&self) -> bool {
        let done = self.rdma_mode.as_ref().and_then(|mode| mode.done.as_ref());
        done.is_some_and(|done| done.exit() == Exit::NeedsReboot)
    }

    fn has_changed(&self) -> bool {
        let is_mode = |mode: &ModeReport| mode.done.is_some() || (self.dry_run && !mode.is_right());
        let mode = self.rdma_mode.as_ref().is_some_and(is_mode);
        mode || self.plan.pfs.iter().any(|pf| !pf.steps.is_empty())
    }

    /// The worst of what happened.
    pub(crate) fn exit(&self, detailed: bool) -> Exit {
        let timed_out = |failure: &bootstrap::Failure| {
            matches!(failure.why, bootstrap::Why::Hardware(HardwareError::TimedOut { .. }))
        };
        if self.failures.iter().any(timed_out) {
            return Exit::TimedOut;
        }
        if !self.failures.is_empty() {
            return Exit::Failed;
        }
        if !self.missing.is_empty() || self.plan.refusals().any(Refusal::is_wrong) {
            return Exit::Wrong;
        }
        if self.plan.refusals().any(|refusal| !refusal.is_unsupported()) {
            return Exit::Refused;
        }
        if self.plan.refusals().next().is_some() {
            return Exit::Unsupported;
        }
        if !self.left.is_empty() {
            return Exit::Failed;
        }
        if self.needs_reboot() {
            return Exit::NeedsReboot;
        }
        if detailed && self.has_changed() { Exit::Changed } else { Exit::Done }
    }

    pub(crate) fn print(&self, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
        if as_json {
            return json::print(self, out);
        }
        if let Some(mode) = &self.rdma_mode {
            mode.print(self.dry_run, out)?;
        }
        for missing in &self.missing {
            writeln!(out, "{missing}")?;
        }
        for pf in &self.plan.pfs {
            self.print_pf(pf, out)?;
        }
        for pf in self.left.pfs.iter().filter(|pf| !pf.steps.is_empty()) {
            writeln!(out, "{} ({}): still to be done: {}", pf.name, pf.pci, pf.summary().join("; "))?;
        }
        if self.dry_run && self.has_changed() {
            writeln!(out, "Nothing was done. To do it, run it again without --dry-run.")?;
        }
        if !self.dry_run && self.has_changed() && self.is_right() {
            writeln!(out, "next: silkrail doctor; then write address pools into /etc/silkrail/pools.d")?;
        }
        Ok(())
    }

    fn print_pf(&self, pf: &PfPlan, out: &mut dyn Write) -> Result<(), Failure> {
        let head = format!("{} ({})", pf.name, pf.pci);
        let failure = self.failures.iter().find(|failure| failure.pci == pf.pci);
        match (&pf.refusal, failure) {
            (Some(refusal), _) => writeln!(out, "{head}: refused: {refusal}")?,
            (None, Some(failure)) => {
                let step = failure.step.map_or_else(String::new, |step| format!("{step}: "));
                writeln!(out, "{head}: failed: {step}{}", failure.why)?;
            }
            (None, None) if pf.steps.is_empty() => {
                writeln!(out, "{head}: {}: nothing to do", bootstrap::vfs(pf.vfs))?
            }
            (None, None) if self.dry_run => {
                writeln!(out, "{head}: to be done:")?;
                pf.summary().iter().try_for_each(|step| writeln!(out, "  {step}"))?;
            }
            (None, None) => writeln!(out, "{head}: {}: done", bootstrap::vfs(pf.vfs))?,
        }
        for note in &pf.notes {
            writeln!(out, "{head}: note: {note}")?;
        }
        Ok(())
    }
}

fn failures<S: Serializer>(failures: &[bootstrap::Failure], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(failures.iter().map(|failure| {
        serde_json::json!({"pci": failure.pci, "step": failure.step, "why": failure.why.to_string()})
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use NetnsMode::{Exclusive, Shared};

    #[test]
    fn a_dry_run_that_would_change_only_the_mode_says_so_by_its_exit_status() {
        let report = |wanted| {
            let mode = ModeReport { wanted, now: Some(Shared), next_boot: Shared, done: None };
            Report { dry_run: true, rdma_mode: Some(mode), ..Report::default() }
        };
        assert_eq!(report(Exclusive).exit(true), Exit::Changed);
        assert_eq!(report(Exclusive).exit(false), Exit::Done);
        assert_eq!(report(Shared).exit(true), Exit::Done);
    }
}
