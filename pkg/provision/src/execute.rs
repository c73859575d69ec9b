//! Making what was planned.

use std::{path::Path, thread};

use identifiers::PciAddress;

use crate::{PciBackend, PciBackendError, PfPlan, PfRecord, PfStep, ProvisionPlan};

/// Who wants to know how far it is. PFs are worked on at the same time.
pub type ProgressCallback<'a> = &'a (dyn Fn(&PfPlan, PfStep) + Sync);

/// What could not be done with a PF. Others were done all the same.
#[derive(Debug)]
pub struct PfFailure {
    /// The PF.
    pub pci: PciAddress,
    /// What a person calls it.
    pub name: String,
    /// The step that failed; none if nothing was begun.
    pub step: Option<PfStep>,
    /// Why.
    pub why: PfFailureCause,
}

/// Why a PF is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum PfFailureCause {
    /// The hardware.
    #[error(transparent)]
    Hardware(#[from] PciBackendError),
    /// What must be remembered could not be written.
    #[error(transparent)]
    Memory(#[from] statefile::Error),
    /// Which boot this is.
    #[error(transparent)]
    Boot(#[from] journal::Error),
}

/// Makes what was planned, every PF on its own. `memory` is the directory in which is remembered what was begun.
///
/// Nothing is taken back after a failure: what is done is as the file says, and the next run goes on from there.
pub fn execute(
    plan: &ProvisionPlan,
    hardware: &dyn PciBackend,
    memory: &Path,
    progress: ProgressCallback<'_>,
) -> Vec<PfFailure> {
    let wanted = plan.pfs.iter().filter(|pf| pf.refusal.is_none() && !pf.steps.is_empty());
    thread::scope(|scope| {
        let workers: Vec<_> =
            wanted.map(|pf| scope.spawn(|| PfRun { pf, hardware, memory, progress }.run())).collect();
        // A worker does not panic: it has nothing to unwrap.
        workers.into_iter().filter_map(|worker| worker.join().ok()?.err()).collect()
    })
}

struct PfRun<'a> {
    pf: &'a PfPlan,
    hardware: &'a dyn PciBackend,
    memory: &'a Path,
    progress: ProgressCallback<'a>,
}

impl PfRun<'_> {
    fn run(&self) -> Result<(), PfFailure> {
        self.save_record(false).map_err(|why| self.failure(None, why))?;
        for step in &self.pf.steps {
            (self.progress)(self.pf, *step);
            if let Err(error) = self.step(*step) {
                self.restore_autoprobe(*step, &error);
                return Err(self.failure(Some(*step), error.into()));
            }
        }
        self.save_record(true).map_err(|why| self.failure(None, why))
    }

    /// Without VFs the kernel may bind new ones again: somebody may make them by hand now. Not while firmware is still at
    /// work: its VFs would be bound before they have an address, and the next run finishes.
    fn restore_autoprobe(&self, step: PfStep, error: &PciBackendError) {
        let still_at_work = matches!(error, PciBackendError::TimedOut { .. });
        if matches!(step, PfStep::CreateVfs { .. }) && self.pf.autoprobe && !still_at_work {
            let _ = self.hardware.set_autoprobe(self.pf.pci, true);
        }
    }

    fn failure(&self, step: Option<PfStep>, why: PfFailureCause) -> PfFailure {
        PfFailure { pci: self.pf.pci, name: self.pf.name.clone(), step, why }
    }

    fn save_record(&self, complete: bool) -> Result<(), PfFailureCause> {
        let boot_id = journal::boot_id()?.to_owned();
        let memory = PfRecord { boot_id, autoprobe: self.pf.autoprobe, vfs: self.pf.ours, complete };
        Ok(memory.write(self.memory, self.pf.pci)?)
    }

    fn step(&self, step: PfStep) -> Result<(), PciBackendError> {
        let (hardware, pf) = (self.hardware, self.pf.pci);
        match step {
            PfStep::Up => hardware.set_up(pf),
            PfStep::PfMtu { to, .. } => hardware.set_mtu(pf, None, to),
            PfStep::Autoprobe(on) => hardware.set_autoprobe(pf, on),
            PfStep::RemoveVfs { .. } => hardware.set_num_vfs(pf, 0),
            PfStep::CreateVfs { count } => hardware.set_num_vfs(pf, count),
            PfStep::Configure { vf, change } => hardware.configure(pf, vf, change),
            PfStep::Unbind { vf } => hardware.unbind(pf, vf),
            PfStep::Bind { vf } => hardware.bind(pf, vf),
            PfStep::VfMtu { vf, to } => hardware.set_mtu(pf, Some(vf), to),
        }
    }
}
