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

#[cfg(test)]
mod tests {
    use rdma_mode::ModeOutcome;

    use super::*;
    use crate::{
        ApplyPermissions, NodeFile, PciBackendError, PfFailure, PfFailureCause, plan,
        tests::{one_pf, pf},
    };

    /// The plan for a PF with 2 VFs.
    fn planned(vfs: u32) -> ProvisionPlan {
        let file = format!("pfs: [{{match: {{driver: mlx5_core}}, vfs: {vfs}, vf: {{mac: keep}}}}]");
        plan(&NodeFile::parse(&file).unwrap(), &one_pf(pf(2)), ApplyPermissions::default()).unwrap()
    }

    fn failed() -> PfFailure {
        let error = PciBackendError::Fewer { wanted: 2, made: 0 };
        PfFailure { pci: pf(0).pci, name: "p0".into(), step: None, why: PfFailureCause::Hardware(error) }
    }

    #[test]
    fn a_node_is_right_only_if_nothing_is_left_to_do() {
        let right = || ApplyReport { plan: planned(2), ..ApplyReport::default() };
        assert!(right().is_right());
        for wrong in [
            ApplyReport { failures: vec![failed()], ..right() },
            ApplyReport { plan: planned(3), ..right() },
            ApplyReport { missing: vec!["eth9".into()], ..right() },
            ApplyReport { left: planned(3), ..right() },
            ApplyReport { rdma_mode: mode(NetnsMode::Shared, Some(true)), ..right() },
        ] {
            assert!(!wrong.is_right(), "{wrong:?}");
        }
        assert!(ApplyReport { rdma_mode: mode(NetnsMode::Shared, Some(false)), ..right() }.is_right());
    }

    /// A report about exclusive mode; `needs_reboot` is that of the change, if one was made.
    fn mode(now: NetnsMode, needs_reboot: Option<bool>) -> Option<ModeReport> {
        let outcome = |reboot| if reboot { ModeOutcome::RebootRequired } else { ModeOutcome::Changed };
        let wanted = NetnsMode::Exclusive;
        let done = needs_reboot.map(|reboot| ModeChange {
            outcome: outcome(reboot),
            dry_run: false,
            wanted,
            was: Some(now),
            persisted: None,
            namespaces: None,
            notes: Vec::new(),
            overruled: None,
            unfinished: false,
        });
        Some(ModeReport { wanted, now: Some(now), next_boot: now, done })
    }

    #[test]
    fn a_preview_has_changes_if_the_mode_is_another_one() {
        let changed = |dry_run, rdma_mode| {
            ApplyReport { dry_run, rdma_mode, plan: planned(2), ..ApplyReport::default() }.has_changed()
        };
        let (shared, exclusive) = (NetnsMode::Shared, NetnsMode::Exclusive);
        for (dry_run, mode, expected) in [
            (true, None, false),
            (true, mode(exclusive, None), false),
            (true, mode(shared, None), true),
            (false, mode(exclusive, None), false),
            (false, mode(shared, Some(false)), true),
        ] {
            assert_eq!(changed(dry_run, mode), expected);
        }
        let steps = ApplyReport { plan: planned(0), ..ApplyReport::default() };
        assert!(!steps.has_changed(), "a refused PF is not changed");
        let next_boot = ModeReport { next_boot: shared, ..mode(exclusive, None).unwrap() };
        assert!(!next_boot.is_right(), "a reboot would lose the mode");
    }
}
