//! Applies a node file: reads the inventory, plans, executes the plan, and reads the inventory again.

use std::{
    fs::{File, OpenOptions},
    path::PathBuf,
    time::{Duration, Instant},
};

use inventory::NodePaths;
use rdma_mode::CurrentMode;

use crate::{
    ApplyPermissions, ApplyReport, InvalidNodeFile, ModeReport, NodeFile, NodeReading, NodeReadingError,
    PfRecord, ProgressCallback, ProvisionPlan, ReadyMarker, SysfsBackend, execute, plan,
};

/// A node file to apply, and the options.
#[derive(Debug)]
pub struct Apply<'a> {
    /// The content of the node file.
    pub file: &'a NodeFile,
    /// The hash for [`ReadyMarker::config_hash`]; without one, no marker is written.
    pub mark: Option<String>,
    /// The node's directories.
    pub node: NodePaths,
    /// The disruptive changes that are permitted.
    pub consent: ApplyPermissions,
    /// The node's hardware.
    pub system: SysfsBackend,
}

/// A node file could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// This process is not in the node's namespaces.
    #[error(transparent)]
    NotTheNode(#[from] netns::NotOnNode),
    /// The state of the node could not be read.
    #[error(transparent)]
    Node(#[from] NodeReadingError),
    /// Two entries match one PF, or a PF has too few GUIDs.
    #[error(transparent)]
    NodeFile(#[from] InvalidNodeFile),
    /// A marker could not be written, or the lock that another run holds could not be acquired.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// The RDMA mode could not be read or set.
    #[error(transparent)]
    Mode(#[from] rdma_mode::Error),
    /// The boot ID, `/proc/sys/kernel/random/boot_id`, cannot be read.
    #[error("cannot read the boot ID: {0}")]
    NoBootId(#[from] journal::Error),
}

impl Apply<'_> {
    /// Returns what would be done and what would be refused.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn preview(&self) -> Result<ApplyReport, ApplyError> {
        netns::require_node_netns(&self.node.root)?;
        let plan = self.plan()?;
        let missing = plan.missing.clone();
        let rdma_mode = self.mode()?;
        if let Some(mode) = rdma_mode.as_ref().filter(|mode| !mode.is_right()) {
            // Report an error that a run would have.
            rdma_mode::preview(&self.node.root, mode.wanted, true)?;
        }
        Ok(ApplyReport { dry_run: true, rdma_mode, plan, missing, ..ApplyReport::default() })
    }

    /// Applies the node file. Refusals and failures are in the report.
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
        // A VF's driver that gets no reply from its PF in time chooses a random address: try once more.
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
        let node = NodeReading::read(&self.node, &self.memory(), self.file)?;
        Ok(plan(self.file, &node, self.consent)?)
    }

    /// Compares the current mode with the wanted one; `None` if the file does not set it.
    fn mode(&self) -> Result<Option<ModeReport>, ApplyError> {
        let Some(wanted) = self.file.rdma_mode else { return Ok(None) };
        Ok(Some(ModeReport::of(wanted, &CurrentMode::read(&self.node.root)?)))
    }

    /// Sets the mode. The ready marker is removed first, since the node is about to change.
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

    /// Writes the ready marker if the node is as described by the file.
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

/// Takes the lock for changes of PFs and VFs, which is held until the file is closed. Another run may wait for firmware.
///
/// # Errors
/// [`statefile::Error::Busy`] if another run still holds the lock after `limit`.
pub fn lock(node: &NodePaths, limit: Duration) -> Result<File, statefile::Error> {
    let dir = node.state.root();
    statefile::make_dir(dir, 0o755)?;
    let path = dir.join("bootstrap.lock");
    let io = |source| statefile::Error::Io { operation: "open", path: path.clone(), source };
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
    statefile::lock(&file, &path, Instant::now() + limit)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::node::without_pfs;

    #[test]
    fn only_a_node_as_described_is_marked_as_ready() {
        let (_root, node, system) = without_pfs();
        let ready = ReadyMarker::path(node.state.root());
        let apply = |file: &str, mark: Option<&str>| {
            let (file, mark) = (NodeFile::parse(file).unwrap(), mark.map(str::to_owned));
            let (node, system) = (node.clone(), system.clone());
            let run = Apply { file: &file, mark, node, consent: ApplyPermissions::default(), system };
            let report = run.run(&|_, _| ()).unwrap();
            (report.is_right(), ready.exists())
        };
        let missing = "pfs: [{match: {link: eth9}, vfs: 1}]";
        assert_eq!(apply("pfs: []", None), (true, false));
        assert_eq!(apply("pfs: []", Some("sha256:0")), (true, true));
        assert_eq!(apply(missing, None), (false, true), "the marker is that of another file");
        assert_eq!(apply(missing, Some("sha256:0")), (false, false), "a PF is missing");
    }

    #[test]
    fn a_node_is_not_ready_before_it_has_the_mode() {
        let (_root, node, system) = without_pfs();
        let ready = ReadyMarker::path(node.state.root());
        let file = NodeFile::parse("rdmaMode: shared").unwrap();
        let mark = Some("sha256:0".to_owned());
        let apply = Apply { file: &file, mark, node, consent: ApplyPermissions::default(), system };
        apply.announce(&ApplyReport::default()).unwrap();
        assert!(!ready.exists(), "without RDMA there is no mode yet");
    }
}
