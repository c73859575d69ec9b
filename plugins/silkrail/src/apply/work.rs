//! The work: look, plan, make, and look again.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

use addr::PciAddress;
use bootstrap::{Consent, Memory, NodeFile, Plan, Ready, System};
use inventory::{Inventory, Node};

use super::report::{ModeReport, Report};
use crate::{exit::Failure, host, mode};

/// A node file to work on, and how.
pub(crate) struct Work<'a> {
    /// Where it was read; none if it was made from arguments.
    pub(crate) path: Option<&'a Path>,
    /// What it says.
    pub(crate) file: &'a NodeFile,
    /// By what the mark that the node is ready names it; none leaves no mark.
    pub(crate) mark: Option<String>,
    /// Whether to do nothing.
    pub(crate) dry_run: bool,
    /// The node.
    pub(crate) node: Node,
    /// What the caller agrees to.
    pub(crate) consent: Consent,
    /// How long firmware may take for one write.
    pub(crate) limit: Duration,
}

impl Work<'_> {
    pub(crate) fn run(&self) -> Result<Report, Failure> {
        host::is_the_nodes(&self.node.root)?;
        let _alone = if self.dry_run { None } else { Some(alone(&self.node, self.limit)?) };
        let plan = self.plan()?;
        if self.dry_run {
            let missing = plan.missing.clone();
            let rdma_mode = self.mode()?;
            if let Some(mode) = rdma_mode.as_ref().filter(|mode| !mode.is_right()) {
                // What would be refused is refused now.
                mode::preview(&self.node.root, mode.wanted, true)?;
            }
            return Ok(Report { dry_run: true, rdma_mode, plan, missing, ..Report::default() });
        }
        let rdma_mode = self.ensure_mode(&plan)?;
        let mut failures = self.make(&plan)?;
        let mut left = if plan.is_empty() { Plan::default() } else { self.plan()? };
        // A driver that asks its PF for the VF's address, and has no answer in time, makes one up: once more, then.
        if failures.is_empty() && !left.is_empty() {
            failures = self.make(&left)?;
            left = self.plan()?;
        }
        let missing = plan.missing.clone();
        let report = Report { dry_run: false, rdma_mode, plan, missing, failures, left };
        self.announce(&report)?;
        Ok(report)
    }

    fn memory(&self) -> PathBuf {
        self.node.root.join(Memory::DIR.trim_start_matches('/'))
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let inventory = Inventory::read(&self.node)?;
        let mut remembered = BTreeMap::new();
        for pf in &inventory.pfs {
            remembered.extend(Memory::read(&self.memory(), pf.pci)?.map(|memory| (pf.pci, memory)));
        }
        let path = || self.path.map_or_else(PathBuf::new, Path::to_owned);
        bootstrap::plan(self.file, &inventory, &remembered, self.consent)
            .map_err(|source| Failure::NodeFile { path: path(), source })
    }

    /// The mode as it is, beside what is wanted.
    fn mode(&self) -> Result<Option<ModeReport>, Failure> {
        let Some(wanted) = self.file.rdma_mode else { return Ok(None) };
        let state = mode::state(&self.node.root)?;
        Ok(Some(ModeReport::of(wanted, &state)))
    }

    /// Sets the mode. First of all the mark goes: from here on the node may be anything.
    fn ensure_mode(&self, plan: &Plan) -> Result<Option<ModeReport>, Failure> {
        let report = self.mode()?;
        let is_right = report.as_ref().is_none_or(ModeReport::is_right);
        if self.mark.is_some() && !(is_right && plan.is_empty()) {
            Ready::withdraw(self.node.state.root())?;
        }
        match report {
            Some(mut report) if !is_right => {
                report.done = Some(mode::ensure(&self.node.root, report.wanted, true)?);
                Ok(Some(report))
            }
            other => Ok(other),
        }
    }

    fn make(&self, plan: &Plan) -> Result<Vec<bootstrap::Failure>, Failure> {
        let system = system(&self.node, self.limit)?;
        let told: Mutex<BTreeSet<(PciAddress, String)>> = Mutex::default();
        Ok(bootstrap::make(plan, &system, &self.memory(), &|pf, step| {
            // One line for what is done to each VF.
            let new = told.lock().is_ok_and(|mut told| told.insert((pf.pci, step.kind())));
            if new {
                let whose = if step.vf().is_some() { "VFs: " } else { "" };
                eprintln!("{}: {whose}{}", pf.name, step.kind());
            }
        }))
    }

    /// Says to whoever waits for it that the node is as the file says.
    fn announce(&self, report: &Report) -> Result<(), Failure> {
        let Some(config_hash) = self.mark.clone().filter(|_| report.is_right()) else { return Ok(()) };
        let rdma_mode = mode::state(&self.node.root)?.mode;
        if self.file.rdma_mode.is_some_and(|wanted| rdma_mode != Some(wanted)) {
            return Ok(()); // ib_core is not loaded yet
        }
        let ready = Ready {
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
pub(crate) fn alone(node: &Node, limit: Duration) -> Result<File, Failure> {
    let dir = node.state.root();
    statefile::make_dir(dir, 0o755)?;
    let path = dir.join("bootstrap.lock");
    let io = |source| statefile::Error::Io { operation: "open", path: path.clone(), source };
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
    statefile::lock(&file, &path, Instant::now() + limit)?;
    Ok(file)
}

/// The node's hardware, for which every attribute is written by a process of its own.
pub(crate) fn system(node: &Node, limit: Duration) -> Result<System, Failure> {
    let writer = vec![env::current_exe()?, "--root".into(), node.root.clone(), "write-attribute".into()];
    Ok(System { sysfs: node.sysfs(), writer, limit })
}
