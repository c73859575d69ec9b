//! Making a node as its file says: look, plan, make, and look again.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    path::PathBuf,
    time::{Duration, Instant},
};

use inventory::{Inventory, NodePaths};
use rdma_mode::CurrentMode;

use crate::{
    ApplyPermissions, ApplyReport, InvalidNodeFile, ModeReport, NodeFile, PfRecord, ProgressCallback,
    ProvisionPlan, ReadyMarker, SysfsBackend, execute, plan,
};

/// A node file to work on, and how.
#[derive(Debug)]
pub struct Apply<'a> {
    /// What it says.
    pub file: &'a NodeFile,
    /// By what the mark that the node is ready names it; none leaves no mark.
    pub mark: Option<String>,
    /// The node.
    pub node: NodePaths,
    /// What the caller agrees to.
    pub consent: ApplyPermissions,
    /// Its hardware.
    pub system: SysfsBackend,
}

/// A node file could not be worked on.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// What this process sees is not the node's.
    #[error(transparent)]
    NotTheNode(#[from] netns::NotOnNode),
    /// The node could not be looked at.
    #[error(transparent)]
    Inventory(#[from] inventory::Error),
    /// The file speaks twice of a PF, or has too few GUIDs for one.
    #[error(transparent)]
    NodeFile(#[from] InvalidNodeFile),
    /// What is remembered, or the lock of another run.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// The RDMA mode.
    #[error(transparent)]
    Mode(#[from] rdma_mode::Error),
    /// The kernel does not tell which boot this is.
    #[error("which boot is this? {0}")]
    NoBootId(#[from] journal::Error),
}

impl Apply<'_> {
    /// What would be done, and would be refused.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn preview(&self) -> Result<ApplyReport, ApplyError> {
        netns::require_node_netns(&self.node.root)?;
        let plan = self.plan()?;
        let missing = plan.missing.clone();
        let rdma_mode = self.mode()?;
        if let Some(mode) = rdma_mode.as_ref().filter(|mode| !mode.is_right()) {
            // What would be refused is refused now.
            rdma_mode::preview(&self.node.root, mode.wanted, true)?;
        }
        Ok(ApplyReport { dry_run: true, rdma_mode, plan, missing, ..ApplyReport::default() })
    }

    /// Makes the node as the file says. What could not be done is in the report.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn run(&self, progress: ProgressCallback<'_>) -> Result<ApplyReport, ApplyError> {
        netns::require_node_netns(&self.node.root)?;
        let _alone = lock(&self.node, self.system.limit)?;
        let plan = self.plan()?;
        let rdma_mode = self.ensure_mode(&plan)?;
        let mut failures = self.make(&plan, progress);
        let mut left = if plan.is_empty() { ProvisionPlan::default() } else { self.plan()? };
        // A driver that asks its PF for the VF's address, and has no answer in time, makes one up: once more, then.
        if failures.is_empty() && !left.is_empty() {
            failures = self.make(&left, progress);
            left = self.plan()?;
        }
        let missing = plan.missing.clone();
        let report = ApplyReport { dry_run: false, rdma_mode, plan, missing, failures, left };
        self.announce(&report)?;
        Ok(report)
    }

    fn make(&self, plan: &ProvisionPlan, progress: ProgressCallback<'_>) -> Vec<crate::PfFailure> {
        execute(plan, &self.system, &self.memory(), progress)
    }

    fn memory(&self) -> PathBuf {
        self.node.root.join(PfRecord::DIR.trim_start_matches('/'))
    }

    fn plan(&self) -> Result<ProvisionPlan, ApplyError> {
        let inventory = Inventory::read(&self.node)?;
        let mut remembered = BTreeMap::new();
        for pf in &inventory.pfs {
            remembered.extend(PfRecord::read(&self.memory(), pf.pci)?.map(|memory| (pf.pci, memory)));
        }
        Ok(plan(self.file, &inventory, &remembered, self.consent)?)
    }

    /// The mode as it is, beside what is wanted.
    fn mode(&self) -> Result<Option<ModeReport>, ApplyError> {
        let Some(wanted) = self.file.rdma_mode else { return Ok(None) };
        Ok(Some(ModeReport::of(wanted, &CurrentMode::read(&self.node.root)?)))
    }

    /// Sets the mode. First of all the mark goes: from here on the node may be anything.
    fn ensure_mode(&self, plan: &ProvisionPlan) -> Result<Option<ModeReport>, ApplyError> {
        let report = self.mode()?;
        let is_right = report.as_ref().is_none_or(ModeReport::is_right);
        if self.mark.is_some() && !(is_right && plan.is_empty()) {
            ReadyMarker::remove(self.node.state.root())?;
        }
        match report {
            Some(mut report) if !is_right => {
                report.done = Some(rdma_mode::ensure(&self.node.root, report.wanted, true)?);
                Ok(Some(report))
            }
            other => Ok(other),
        }
    }

    /// Says to whoever waits for it that the node is as the file says.
    fn announce(&self, report: &ApplyReport) -> Result<(), ApplyError> {
        let Some(config_hash) = self.mark.clone().filter(|_| report.is_right()) else { return Ok(()) };
        let rdma_mode = CurrentMode::read(&self.node.root)?.mode;
        if self.file.rdma_mode.is_some_and(|wanted| rdma_mode != Some(wanted)) {
            return Ok(()); // ib_core is not loaded yet
        }
        let ready = ReadyMarker {
            boot_id: journal::boot_id()?.to_owned(),
            config_hash,
            rdma_mode,
            pfs: report.plan.pfs.len(),
            vfs: report.plan.pfs.iter().map(|pf| pf.vfs).sum(),
        };
        Ok(ready.announce(self.node.state.root())?)
    }
}

/// Whoever changes functions is alone as long as this is open. Another run may be at work for as long as its firmware takes.
///
/// # Errors
/// That another run is still at work when the `limit` has passed.
pub fn lock(node: &NodePaths, limit: Duration) -> Result<File, statefile::Error> {
    let dir = node.state.root();
    statefile::make_dir(dir, 0o755)?;
    let path = dir.join("bootstrap.lock");
    let io = |source| statefile::Error::Io { operation: "open", path: path.clone(), source };
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
    statefile::lock(&file, &path, Instant::now() + limit)?;
    Ok(file)
}
