//! What was found, done and left.

use rdma::NetnsMode;
use rdma_mode::{CurrentMode, ModeChange};
use serde::{Serialize, Serializer};

use crate::{PfFailure, ProvisionPlan};

/// What was found, done and left.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyReport {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The RDMA mode, if the file speaks of it.
    pub rdma_mode: Option<ModeReport>,
    /// What was to be done.
    #[serde(rename = "pfs")]
    pub plan: ProvisionPlan,
    /// What the file names and the node does not have.
    pub missing: Vec<String>,
    /// What failed.
    #[serde(serialize_with = "failures")]
    pub failures: Vec<PfFailure>,
    /// What is still to be done.
    pub left: ProvisionPlan,
}

/// The RDMA mode beside the wanted one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeReport {
    /// What the file says.
    pub wanted: NetnsMode,
    /// What it was; `None` without RDMA.
    pub now: Option<NetnsMode>,
    /// What the next boot would have had.
    pub next_boot: NetnsMode,
    /// What was done about it; nothing if it was right.
    pub done: Option<ModeChange>,
}

impl ModeReport {
    pub(crate) fn of(wanted: NetnsMode, current: &CurrentMode) -> Self {
        Self { wanted, now: current.mode, next_boot: current.next_boot.mode, done: None }
    }

    /// Whether the node has the mode, and will have it after the next boot.
    pub fn is_right(&self) -> bool {
        (self.now, self.next_boot) == (Some(self.wanted), self.wanted)
    }
}

impl ApplyReport {
    /// Whether the node is now as the file says.
    pub fn is_right(&self) -> bool {
        self.failures.is_empty()
            && self.plan.refusals().next().is_none()
            && self.missing.is_empty()
            && self.left.is_empty()
            && !self.needs_reboot()
    }

    /// Whether a reboot, or an idle node, is needed for the RDMA mode.
    pub fn needs_reboot(&self) -> bool {
        let done = self.rdma_mode.as_ref().and_then(|mode| mode.done.as_ref());
        done.is_some_and(ModeChange::needs_reboot)
    }

    /// Whether something was changed, or would be.
    pub fn has_changed(&self) -> bool {
        let is_mode = |mode: &ModeReport| mode.done.is_some() || (self.dry_run && !mode.is_right());
        let mode = self.rdma_mode.as_ref().is_some_and(is_mode);
        mode || self.plan.pfs.iter().any(|pf| !pf.steps.is_empty())
    }
}

fn failures<S: Serializer>(failures: &[PfFailure], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(failures.iter().map(|failure| {
        serde_json::json!({"pci": failure.pci, "step": failure.step, "why": failure.why.to_string()})
    }))
}
