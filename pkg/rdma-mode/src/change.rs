//! Sets the mode.

use std::path::{Path, PathBuf};

use modprobe::{IbCoreLocation, KernelModules, ModprobeConfig, NextBootMode};
use netns::OtherNetNs;
use rdma::{Handle, ModeError, NetnsMode};
use serde::Serialize;
use sysfs::Sysfs;

use crate::{
    Error,
    current::{next_boot, now},
};

/// The number of blocking namespaces that are shown.
const SHOWN: usize = 5;

/// The result of setting the mode, or of its preview.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeChange {
    /// What happened to the current mode.
    pub outcome: ModeOutcome,
    /// Whether this is a preview, and nothing was changed.
    pub dry_run: bool,
    /// The requested mode.
    pub wanted: NetnsMode,
    /// The former mode, if known.
    pub was: Option<NetnsMode>,
    /// The file that sets the mode for the next boot.
    pub persisted: Option<PersistedMode>,
    /// The network namespaces because of which the kernel refuses to change the mode.
    pub namespaces: Option<BlockingNetns>,
    /// Further information for the operator.
    pub notes: Vec<String>,
    /// The file or command line that overrides the persisted mode at the next boot.
    pub overruled: Option<String>,
    /// Whether the next boot also needs a change of the kernel command line.
    #[serde(skip)]
    pub unfinished: bool,
}

/// What happened to the current mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModeOutcome {
    /// It was the requested one already.
    NoChange,
    /// It was changed.
    Changed,
    /// It will be the requested one when `ib_core` is loaded.
    AtLoad,
    /// It is unchanged until a reboot.
    RebootRequired,
}

/// The file that sets the mode for the next boot.
#[derive(Debug, Serialize)]
pub struct PersistedMode {
    /// The file.
    pub file: PathBuf,
    /// Whether it was changed.
    pub changed: bool,
}

/// The network namespaces because of which the kernel refuses to change the mode.
#[derive(Debug, Serialize)]
pub struct BlockingNetns {
    /// The number of network namespaces other than the node's.
    pub count: usize,
    /// The first of them.
    pub shown: Vec<OtherNetNs>,
}

/// Sets the mode. With `persist` it is first persisted for the next boot, so that a mode that was set is never lost by a
/// reboot.
///
/// # Errors
/// If it cannot be set at all; the current mode is then unchanged. A refusal because of other namespaces is not an error.
pub fn ensure(root: &Path, mode: NetnsMode, persist: bool) -> Result<ModeChange, Error> {
    let sysfs = Sysfs::at(root.join("sys"));
    netns::require_node_netns(root)?;
    let kernel = KernelModules::running(root);
    let loaded = can_be_set(&sysfs, &kernel, persist)?;
    let mut change = ModeChange::new(mode);
    if persist {
        change.persist(root, &kernel)?;
    }
    if loaded {
        change.set(root, &rdma::Handle::open(&sysfs)?)?;
    } else {
        change.outcome = ModeOutcome::AtLoad;
    }
    Ok(change)
}

/// Returns what [`ensure`] would do.
///
/// # Errors
/// As [`ensure`].
pub fn preview(root: &Path, mode: NetnsMode, persist: bool) -> Result<ModeChange, Error> {
    let sysfs = Sysfs::at(root.join("sys"));
    netns::require_node_netns(root)?;
    let kernel = KernelModules::running(root);
    let loaded = can_be_set(&sysfs, &kernel, persist)?;
    let mut change = ModeChange { dry_run: true, ..ModeChange::new(mode) };
    if persist {
        let next = next_boot(root, &kernel)?;
        match kernel.ib_core() {
            IbCoreLocation::BuiltIn if next.mode != mode => change.needs_kernel_argument(),
            IbCoreLocation::BuiltIn => {}
            _ => {
                let modprobe = ModprobeConfig::below(root);
                let changed = modprobe.would_persist(mode)?;
                change.persisted = Some(PersistedMode { file: modprobe.file(), changed });
            }
        }
    }
    match now(&sysfs)? {
        Some((now, _)) if now == mode => change.was = Some(now),
        Some((now, _)) => {
            let others = change.others(root);
            if others.is_empty() {
                (change.outcome, change.was) = (ModeOutcome::Changed, Some(now));
            } else {
                change.refused_by(now, others);
            }
        }
        None if loaded => {}
        None => change.outcome = ModeOutcome::AtLoad,
    }
    Ok(change)
}

/// Returns whether `ib_core` is loaded; an error if the mode cannot be set at all.
fn can_be_set(sysfs: &Sysfs, kernel: &KernelModules, persist: bool) -> Result<bool, Error> {
    let loaded = sysfs.has_rdma()?;
    match kernel.ib_core() {
        IbCoreLocation::Missing if !loaded => Err(Error::NoModule(kernel.modules().display().to_string())),
        _ if !loaded && !persist => Err(Error::NotLoaded),
        _ => Ok(loaded),
    }
}

impl ModeChange {
    fn new(wanted: NetnsMode) -> Self {
        Self {
            outcome: ModeOutcome::NoChange,
            dry_run: false,
            wanted,
            was: None,
            persisted: None,
            namespaces: None,
            notes: Vec::new(),
            overruled: None,
            unfinished: false,
        }
    }

    /// Whether a reboot, or an idle node, is required.
    pub fn needs_reboot(&self) -> bool {
        self.outcome == ModeOutcome::RebootRequired || self.unfinished
    }

    /// Sets the mode for the next boot.
    fn persist(&mut self, root: &Path, kernel: &KernelModules) -> Result<(), Error> {
        if kernel.ib_core() == IbCoreLocation::BuiltIn {
            if next_boot(root, kernel)?.mode != self.wanted {
                self.needs_kernel_argument();
            }
            return Ok(());
        }
        let modprobe = ModprobeConfig::below(root);
        let changed = modprobe.persist(self.wanted)?;
        self.persisted = Some(PersistedMode { file: modprobe.file(), changed });
        if changed {
            self.notes.extend(kernel.initramfs_hint());
        }
        self.next_boot(next_boot(root, kernel)?);
        Ok(())
    }

    /// Sets the current mode.
    fn set(&mut self, root: &Path, rdma: &Handle) -> Result<(), Error> {
        let before = match rdma.netns_mode() {
            // A kernel without modes shares every device.
            Err(rdma::Error::TooOld { .. }) if self.wanted == NetnsMode::Shared => self.wanted,
            other => other?,
        };
        self.was = Some(before);
        if before == self.wanted {
            return Ok(());
        }
        match rdma.set_netns_mode(self.wanted) {
            Ok(()) => {
                let is_now = rdma.netns_mode()? == self.wanted;
                self.outcome = if is_now { ModeOutcome::Changed } else { ModeOutcome::RebootRequired };
            }
            Err(ModeError::Busy { .. }) => {
                let others = self.others(root);
                self.refused_by(before, others);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn needs_kernel_argument(&mut self) {
        let value = if self.wanted == NetnsMode::Exclusive { 0 } else { 1 };
        self.unfinished = true;
        self.notes.push(format!(
            "ib_core is built into this kernel, so modprobe.d has no effect: add ib_core.netns_mode={value} to the \
             kernel command line (grubby --update-kernel=ALL --args=ib_core.netns_mode={value}, or \
             GRUB_CMDLINE_LINUX in /etc/default/grub and update-grub)"
        ));
    }

    /// Checks whether another setting overrides the managed file.
    fn next_boot(&mut self, next: NextBootMode) {
        self.notes.extend(next.warnings);
        if next.mode == self.wanted {
            return;
        }
        self.unfinished = next.file.is_none();
        let winner = next.file.map_or(next.by.to_owned(), |file| file.display().to_string());
        self.notes
            .push(format!("the next boot will not be in {} mode unless {winner} is changed", self.wanted));
        self.overruled = Some(winner);
    }

    /// Returns the other network namespaces that are visible from this process.
    fn others(&mut self, root: &Path) -> Vec<OtherNetNs> {
        OtherNetNs::list(root).unwrap_or_else(|why| {
            self.notes.push(why.to_string());
            Vec::new()
        })
    }

    fn refused_by(&mut self, now: NetnsMode, mut namespaces: Vec<OtherNetNs>) {
        self.outcome = ModeOutcome::RebootRequired;
        self.was = Some(now);
        let count = namespaces.len();
        namespaces.truncate(SHOWN);
        self.namespaces = Some(BlockingNetns { count, shown: namespaces });
    }
}
