//! Executes a plan.

use std::{path::Path, thread};

use dcb::DcbChange;
use identifiers::PciAddress;

use crate::{DcbRecord, PciBackend, PciBackendError, PfPlan, PfRecord, PfStep, ProvisionPlan};

/// Called before each step. PFs are changed concurrently.
pub type ProgressCallback<'a> = &'a (dyn Fn(&PfPlan, &PfStep) + Sync);

/// The failure of a PF. It does not affect other PFs.
#[derive(Debug)]
pub struct PfFailure {
    /// The PCI address of the PF.
    pub pci: PciAddress,
    /// The name of the PF: its link, or its PCI address.
    pub name: String,
    /// The step that failed; `None` if the record could not be written.
    pub step: Option<PfStep>,
    /// The cause.
    pub why: PfFailureCause,
}

/// Why a PF could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum PfFailureCause {
    /// A step failed.
    #[error(transparent)]
    Hardware(#[from] PciBackendError),
    /// The record of the PF could not be written.
    #[error(transparent)]
    Memory(#[from] statefile::Error),
    /// The boot ID could not be read.
    #[error(transparent)]
    Boot(#[from] journal::Error),
}

/// Executes a plan, with one thread per PF. `memory` is the directory of the [`PfRecord`]s.
///
/// Nothing is reverted after a failure: completed steps conform to the node file, and the next run continues from there.
pub fn execute(
    plan: &ProvisionPlan,
    hardware: &dyn PciBackend,
    memory: &Path,
    progress: ProgressCallback<'_>,
) -> Vec<PfFailure> {
    let is_run = |pf: &&PfPlan| pf.refusal.is_none() && (!pf.steps.is_empty() || pf.dcb_record_differs);
    let wanted = plan.pfs.iter().filter(is_run);
    thread::scope(|scope| {
        let workers: Vec<_> = wanted
            .map(|pf| scope.spawn(|| PfRun { pf, hardware, memory, progress, dcb: pf.dcb.clone() }.run()))
            .collect();
        // A worker does not panic: it unwraps nothing.
        workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect()
    })
}

struct PfRun<'a> {
    pf: &'a PfPlan,
    hardware: &'a dyn PciBackend,
    memory: &'a Path,
    progress: ProgressCallback<'a>,
    /// The record of its DCB settings after the last step.
    dcb: DcbRecord,
}

impl PfRun<'_> {
    /// A change of the DCB settings that fails does not keep the PF from its VFs, but from the changes that follow it.
    fn run(mut self) -> Vec<PfFailure> {
        if let Err(why) = self.save_record(false) {
            return vec![self.failure(None, why)];
        }
        let mut failures = Vec::new();
        let mut is_complete = true;
        let mut unclear = None;
        for step in &self.pf.steps {
            let is_dcb = matches!(step, PfStep::Dcb(_));
            if is_dcb && !failures.is_empty() {
                continue;
            }
            (self.progress)(self.pf, step);
            if let Err(error) = self.step(step) {
                self.restore_autoprobe(step, &error);
                failures.push(self.failure(Some(step.clone()), error.into()));
                is_complete = is_dcb;
                match step {
                    // It may have been made nevertheless: the next run sees whether it is in place.
                    PfStep::Dcb(change) => unclear = Some(change),
                    _ => break,
                }
            } else if let PfStep::Dcb(change) = step {
                change.clone().record(&mut self.dcb.made);
            }
        }
        let is_planned = |change: &DcbChange| self.pf.steps.contains(&PfStep::Dcb(change.clone()));
        self.dcb.pending.retain(|change| unclear == Some(change) || !is_planned(change));
        let record = self.save_record(is_complete);
        failures.extend(record.err().map(|why| self.failure(None, why)));
        failures
    }

    /// Restores autoprobe if no VFs were created, since an operator may create some manually. After a timeout it stays off:
    /// firmware may still create VFs, which must not be bound before they have an address.
    fn restore_autoprobe(&self, step: &PfStep, error: &PciBackendError) {
        let in_progress = matches!(error, PciBackendError::TimedOut { .. });
        if matches!(step, PfStep::CreateVfs { .. }) && self.pf.autoprobe && !in_progress {
            let _ = self.hardware.set_autoprobe(self.pf.pci, true);
        }
    }

    fn failure(&self, step: Option<PfStep>, why: PfFailureCause) -> PfFailure {
        PfFailure { pci: self.pf.pci, name: self.pf.name.clone(), step, why }
    }

    fn save_record(&self, complete: bool) -> Result<(), PfFailureCause> {
        let boot_id = journal::boot_id()?.to_owned();
        let memory = PfRecord {
            boot_id,
            autoprobe: self.pf.autoprobe,
            vfs: self.pf.ours,
            dcb: self.dcb.clone(),
            complete,
        };
        Ok(memory.write(self.memory, self.pf.pci)?)
    }

    fn step(&self, step: &PfStep) -> Result<(), PciBackendError> {
        let (hardware, pf) = (self.hardware, self.pf.pci);
        match *step {
            PfStep::Up => hardware.set_up(pf),
            PfStep::PfMtu { to, .. } => hardware.set_mtu(pf, None, to),
            PfStep::Dcb(ref change) => hardware.change_dcb(pf, change),
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
