//! The result of applying a node file.

use rdma::NetnsMode;
use rdma_mode::{CurrentMode, ModeChange};
use serde::{Serialize, Serializer};

use crate::{PfFailure, ProvisionPlan};

/// The result of applying a node file, or of its preview.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyReport {
    /// Whether this is a preview, and nothing was changed.
    pub dry_run: bool,
    /// The RDMA mode, if the file sets it.
    pub rdma_mode: Option<ModeReport>,
    /// The plan that was executed.
    #[serde(rename = "pfs")]
    pub plan: ProvisionPlan,
    /// Entries of the file that match no PF, as error messages.
    pub missing: Vec<String>,
    /// The failures: of each PF at most one step, and one change of its DCB settings.
    #[serde(serialize_with = "failures")]
    pub failures: Vec<PfFailure>,
    /// The steps that are still needed.
    pub left: ProvisionPlan,
}

/// The RDMA mode compared with the wanted one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeReport {
    /// The mode in the file.
    pub wanted: NetnsMode,
    /// The mode before the run; `None` without RDMA.
    pub now: Option<NetnsMode>,
    /// The mode that the next boot would have had before the run.
    pub next_boot: NetnsMode,
    /// The change that was made; `None` if the mode was correct.
    pub done: Option<ModeChange>,
}

impl ModeReport {
    pub(crate) fn of(wanted: NetnsMode, current: &CurrentMode) -> Self {
        Self { wanted, now: current.mode, next_boot: current.next_boot.mode, done: None }
    }

    /// Whether the node has the wanted mode now and after the next boot.
    pub fn is_right(&self) -> bool {
        (self.now, self.next_boot) == (Some(self.wanted), self.wanted)
    }
}

impl ApplyReport {
    /// Whether the node is as described by the file.
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
