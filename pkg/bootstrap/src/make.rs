//! Making what was planned.

use std::{path::Path, thread};

use addr::PciAddress;

use crate::{Hardware, HardwareError, Memory, PfPlan, Plan, Step};

/// Who wants to know how far it is. PFs are worked on at the same time.
pub type Progress<'a> = &'a (dyn Fn(&PfPlan, Step) + Sync);

/// What could not be done with a PF. Others were done all the same.
#[derive(Debug)]
pub struct Failure {
    /// The PF.
    pub pci: PciAddress,
    /// What a person calls it.
    pub name: String,
    /// The step that failed; none if nothing was begun.
    pub step: Option<Step>,
    /// Why.
    pub why: Why,
}

/// Why a PF is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// The hardware.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
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
pub fn make(plan: &Plan, hardware: &dyn Hardware, memory: &Path, progress: Progress<'_>) -> Vec<Failure> {
    let wanted = plan.pfs.iter().filter(|pf| pf.refusal.is_none() && !pf.steps.is_empty());
    thread::scope(|scope| {
        let workers: Vec<_> =
            wanted.map(|pf| scope.spawn(|| Work { pf, hardware, memory, progress }.run())).collect();
        // A worker does not panic: it has nothing to unwrap.
        workers.into_iter().filter_map(|worker| worker.join().ok()?.err()).collect()
    })
}

struct Work<'a> {
    pf: &'a PfPlan,
    hardware: &'a dyn Hardware,
    memory: &'a Path,
    progress: Progress<'a>,
}

impl Work<'_> {
    fn run(&self) -> Result<(), Failure> {
        self.remember(false).map_err(|why| self.failure(None, why))?;
        for step in &self.pf.steps {
            (self.progress)(self.pf, *step);
            if let Err(error) = self.step(*step) {
                self.give_back(*step, &error);
                return Err(self.failure(Some(*step), error.into()));
            }
        }
        self.remember(true).map_err(|why| self.failure(None, why))
    }

    /// Without VFs the kernel may bind new ones again: somebody may make them by hand now. Not while firmware is still at
    /// work: its VFs would be bound before they have an address, and the next run finishes.
    fn give_back(&self, step: Step, error: &HardwareError) {
        let still_at_work = matches!(error, HardwareError::TimedOut { .. });
        if matches!(step, Step::CreateVfs { .. }) && self.pf.autoprobe && !still_at_work {
            let _ = self.hardware.set_autoprobe(self.pf.pci, true);
        }
    }

    fn failure(&self, step: Option<Step>, why: Why) -> Failure {
        Failure { pci: self.pf.pci, name: self.pf.name.clone(), step, why }
    }

    fn remember(&self, complete: bool) -> Result<(), Why> {
        let boot_id = journal::boot_id()?.to_owned();
        let memory = Memory { boot_id, autoprobe: self.pf.autoprobe, vfs: self.pf.ours, complete };
        Ok(memory.write(self.memory, self.pf.pci)?)
    }

    fn step(&self, step: Step) -> Result<(), HardwareError> {
        let (hardware, pf) = (self.hardware, self.pf.pci);
        match step {
            Step::Up => hardware.set_up(pf),
            Step::PfMtu { to, .. } => hardware.set_mtu(pf, None, to),
            Step::Autoprobe(on) => hardware.set_autoprobe(pf, on),
            Step::RemoveVfs { .. } => hardware.set_num_vfs(pf, 0),
            Step::CreateVfs { count } => hardware.set_num_vfs(pf, count),
            Step::Configure { vf, change } => hardware.configure(pf, vf, change),
            Step::Unbind { vf } => hardware.unbind(pf, vf),
            Step::Bind { vf } => hardware.bind(pf, vf),
            Step::VfMtu { vf, to } => hardware.set_mtu(pf, Some(vf), to),
        }
    }
}
