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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_mode_that_another_setting_overrides_is_finished_only_by_a_file() {
        let after = |mode, file: Option<&str>| {
            let mut change = ModeChange::new(NetnsMode::Exclusive);
            let file = file.map(PathBuf::from);
            change.next_boot(NextBootMode {
                mode,
                file,
                warnings: Vec::new(),
                by: "the kernel command line",
            });
            (change.overruled, change.unfinished)
        };
        assert_eq!(after(NetnsMode::Exclusive, None), (None, false));
        assert_eq!(
            after(NetnsMode::Shared, Some("/etc/modprobe.d/zz.conf")),
            (Some("/etc/modprobe.d/zz.conf".into()), false)
        );
        assert_eq!(after(NetnsMode::Shared, None), (Some("the kernel command line".into()), true));
    }

    #[test]
    fn without_ib_core_a_mode_can_only_be_set_for_when_it_is_loaded() {
        let root = tempfile::tempdir().unwrap();
        let (sysfs, kernel) = (Sysfs::at(root.path().join("sys")), KernelModules::of(root.path(), "6.12.0"));
        let set = |persist| can_be_set(&sysfs, &kernel, persist);
        assert!(matches!(set(true), Err(Error::NoModule(_))));
        let modules = root.path().join("lib/modules/6.12.0");
        fs::create_dir_all(&modules).unwrap();
        fs::write(modules.join("modules.dep"), "kernel/drivers/infiniband/core/ib_core.ko:\n").unwrap();
        assert!(matches!(set(false), Err(Error::NotLoaded)));
        assert!(!set(true).unwrap());
        fs::create_dir_all(root.path().join("sys/class/infiniband")).unwrap();
        assert!(set(false).unwrap() && set(true).unwrap());
        fs::remove_dir_all(modules).unwrap();
        assert!(set(false).unwrap() && set(true).unwrap(), "a vendor's ib_core that is loaded is enough");
    }

    #[test]
    fn a_refused_change_names_the_first_namespaces_and_counts_all() {
        let mut change = ModeChange::new(NetnsMode::Exclusive);
        assert!(!change.needs_reboot());
        let other = |inode| OtherNetNs {
            id: netns::NetNsId::new(4, inode),
            mounts: Vec::new(),
            processes: Vec::new(),
        };
        change.refused_by(NetnsMode::Shared, (1..=7).map(other).collect());
        let namespaces = change.namespaces.as_ref().unwrap();
        assert_eq!((namespaces.count, namespaces.shown.len(), namespaces.shown[0].id.ino), (7, SHOWN, 1));
        assert_eq!((change.was, change.outcome), (Some(NetnsMode::Shared), ModeOutcome::RebootRequired));
        assert!(change.needs_reboot());
    }

    /// A node whose running kernel lists `ib_core` in this file, and has an initramfs.
    fn node(list: &str) -> (tempfile::TempDir, KernelModules) {
        let root = tempfile::tempdir().unwrap();
        let kernel = KernelModules::running(root.path());
        let release = kernel.modules().file_name().unwrap().to_str().unwrap().to_owned();
        for dir in ["proc/self/ns", "proc/1/ns", "boot"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        fs::create_dir_all(kernel.modules()).unwrap();
        let end = if list == "modules.dep" { ":" } else { "" };
        let line = format!("kernel/drivers/infiniband/core/ib_core.ko{end}\n");
        fs::write(kernel.modules().join(list), line).unwrap();
        fs::write(root.path().join(format!("boot/initrd.img-{release}")), "").unwrap();
        for process in ["self", "1"] {
            symlink("net:[4026531840]", root.path().join(format!("proc/{process}/ns/net"))).unwrap();
        }
        (root, kernel)
    }

    #[test]
    fn the_initramfs_is_mentioned_only_if_the_file_was_changed() {
        let (root, kernel) = node("modules.dep");
        let persist = |mode| {
            let mut change = ModeChange::new(mode);
            change.persist(root.path(), &kernel).unwrap();
            (change.persisted.unwrap().changed, change.notes.len(), change.unfinished)
        };
        assert_eq!(persist(NetnsMode::Exclusive), (true, 1, false));
        assert_eq!(persist(NetnsMode::Exclusive), (false, 0, false));
        assert_eq!(persist(NetnsMode::Shared), (true, 1, false));
    }

    #[test]
    fn a_preview_is_that_of_the_change_and_writes_nothing() {
        let (root, _) = node("modules.dep");
        let of = |root: &Path, mode| preview(root, mode, true).unwrap();
        let change = of(root.path(), NetnsMode::Exclusive);
        let persisted = change.persisted.as_ref().unwrap();
        assert_eq!((change.outcome, change.dry_run, persisted.changed), (ModeOutcome::AtLoad, true, true));
        assert!(!persisted.file.exists() && !change.needs_reboot());
        ensure(root.path(), NetnsMode::Exclusive, true).unwrap();
        assert!(persisted.file.exists() && !of(root.path(), NetnsMode::Exclusive).persisted.unwrap().changed);
        assert!(matches!(preview(root.path(), NetnsMode::Exclusive, false), Err(Error::NotLoaded)));

        let (built_in, _) = node("modules.builtin");
        let change = of(built_in.path(), NetnsMode::Exclusive);
        assert!(change.persisted.is_none() && change.needs_reboot(), "{change:?}");
        assert!(!of(built_in.path(), NetnsMode::Shared).needs_reboot(), "it is the kernel's default");
        // A file of modprobe has no effect on it.
        fs::create_dir_all(built_in.path().join("etc/modprobe.d")).unwrap();
        let file = built_in.path().join("etc/modprobe.d/ib_core.conf");
        fs::write(file, "options ib_core netns_mode=0\n").unwrap();
        assert!(of(built_in.path(), NetnsMode::Exclusive).needs_reboot());
        assert!(ensure(built_in.path(), NetnsMode::Exclusive, true).unwrap().needs_reboot());
        assert!(!ensure(built_in.path(), NetnsMode::Shared, true).unwrap().needs_reboot());
    }

    #[test]
    fn a_kernel_argument_is_needed_until_the_next_boot_has_the_mode() {
        for (mode, argument) in
            [(NetnsMode::Exclusive, "netns_mode=0 "), (NetnsMode::Shared, "netns_mode=1 ")]
        {
            let mut change = ModeChange::new(mode);
            change.needs_kernel_argument();
            assert!(change.needs_reboot() && change.notes[0].contains(argument), "{change:?}");
        }
    }
}
