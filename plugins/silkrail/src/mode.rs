//! `silkrail mode`: the node's RDMA mode, now and at the next boot.

mod report;
mod state;

use std::{fs, io::Write, path::Path};

use clap::Subcommand;
use modprobe::{IbCore, Kernel, Modprobe, NextBoot};
use rdma::{ModeError, NetnsMode, Socket};
use sysfs::Sysfs;

use self::state::Source;
pub(crate) use self::{report::SetReport, state::State};
use crate::{
    exit::{self, Exit, Failure},
    host,
    namespaces::{self, Namespace},
};

/// Show or set the node's RDMA mode
///
/// In shared mode every pod sees every RDMA device of the node: for macvlan and ipvlan. In exclusive mode a device is in
/// one network namespace only: for SR-IOV VFs.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Show the mode of now, the mode of the next boot, and whether they agree
    #[command(after_help = exit::HELP)]
    Get {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set the mode
    ///
    /// The kernel refuses while any other network namespace exists: set the mode at boot, before the container
    /// runtime starts, or persist it and reboot.
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// shared or exclusive
        mode: NetnsMode,
        /// Also keep it for the next boot, in /etc/modprobe.d/ib_core.conf
        #[arg(long)]
        persist: bool,
        /// Show what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  silkrail mode get
  silkrail mode set exclusive --persist && echo done || echo 'reboot to finish'";

const SET_EXAMPLES: &str = "\
Examples:
  silkrail mode set exclusive --persist    now if the node is idle, at the next boot in any case
  silkrail mode set shared                 now, and only until the next boot

Exit status:
  0   the mode is set, or was already
  1   an error; the mode is as it was
  2   wrong usage
  4   not supported: no RDMA on this node, or a kernel too old
  10  the mode is as it was: a reboot (or an idle node) is needed";

impl Command {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<Exit, Failure> {
        match self {
            Self::Get { json } => get(root, *json, out),
            Self::Set { mode, persist, dry_run, json } => {
                let make = if *dry_run { preview } else { ensure };
                let report = make(root, *mode, *persist)?;
                report.print(*json, out)?;
                Ok(report.exit())
            }
        }
    }
}

/// How many of the namespaces in the way are listed.
const LISTED: usize = 5;

fn get(root: &Path, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let state = state(root)?;
    state.print(json, out)?;
    Ok(if state.mode.is_some() { Exit::Done } else { Exit::Unsupported })
}

/// The mode of now, and of the next boot.
pub(crate) fn state(root: &Path) -> Result<State, Failure> {
    let sysfs = Sysfs::at(root.join("sys"));
    let (mode, source) = match current(&sysfs)? {
        Some((mode, source)) => (Some(mode), Some(source)),
        None => (None, None),
    };
    let next = next_boot(root, &Kernel::running(root))?;
    Ok(State { mode, source, agree: mode.is_none_or(|mode| mode == next.mode), next_boot: next })
}

/// Persists first: a mode that is set and then lost at the next boot would be a surprise, a mode that is persisted
/// and not yet set is the plan.
pub(crate) fn ensure(root: &Path, mode: NetnsMode, persist: bool) -> Result<SetReport, Failure> {
    let sysfs = Sysfs::at(root.join("sys"));
    host::is_the_nodes(root)?;
    let kernel = Kernel::running(root);
    let loaded = can_be_set(&sysfs, &kernel, persist)?;
    let mut report = SetReport::new(mode);
    if persist {
        keep(root, &kernel, mode, &mut report)?;
    }
    if loaded {
        apply(root, &mut rdma::open(&sysfs)?, mode, &mut report)?
    } else {
        report.at_load()
    }
    Ok(report)
}

/// What [`ensure`] would do, and would refuse.
pub(crate) fn preview(root: &Path, mode: NetnsMode, persist: bool) -> Result<SetReport, Failure> {
    let sysfs = Sysfs::at(root.join("sys"));
    host::is_the_nodes(root)?;
    let kernel = Kernel::running(root);
    let loaded = can_be_set(&sysfs, &kernel, persist)?;
    let mut report = SetReport::preview(mode);
    if persist {
        let next = next_boot(root, &kernel)?;
        match kernel.ib_core() {
            IbCore::BuiltIn if next.mode != mode => report.kernel_argument(),
            IbCore::BuiltIn => {}
            _ => report.persisted(&Modprobe::below(root).file(), Modprobe::below(root).would_persist(mode)?),
        }
    }
    match current(&sysfs)? {
        Some((now, _)) if now == mode => report.was = Some(now),
        Some((now, _)) => {
            let others = namespaces::others(&root.join("proc"));
            if others.is_empty() { report.would_change(now) } else { report.busy(now, others, LISTED) }
        }
        None if loaded => {}
        None => report.at_load(),
    }
    Ok(report)
}

/// Whether `ib_core` is loaded, where a mode can be set at all.
fn can_be_set(sysfs: &Sysfs, kernel: &Kernel, persist: bool) -> Result<bool, Failure> {
    let loaded = sysfs.has_rdma()?;
    match kernel.ib_core() {
        IbCore::Missing if !loaded => Err(Failure::NoModule(kernel.modules().display().to_string())),
        _ if !loaded && !persist => Err(Failure::NotLoaded),
        _ => Ok(loaded),
    }
}

/// Sets the mode for the next boot.
fn keep(root: &Path, kernel: &Kernel, mode: NetnsMode, report: &mut SetReport) -> Result<(), Failure> {
    if kernel.ib_core() == IbCore::BuiltIn {
        if next_boot(root, kernel)?.mode != mode {
            report.kernel_argument();
        }
        return Ok(());
    }
    let modprobe = Modprobe::below(root);
    let changed = modprobe.persist(mode)?;
    report.persisted(&modprobe.file(), changed);
    if changed {
        report.notes.extend(kernel.initramfs_hint());
    }
    report.next_boot(next_boot(root, kernel)?);
    Ok(())
}

/// Sets the mode of now.
fn apply(root: &Path, socket: &mut Socket, mode: NetnsMode, report: &mut SetReport) -> Result<(), Failure> {
    let before = match rdma::netns_mode(socket) {
        // A kernel that knows no modes shares every device.
        Err(rdma::Error::TooOld { .. }) if mode == NetnsMode::Shared => mode,
        other => other?,
    };
    report.was = Some(before);
    if before == mode {
        return Ok(());
    }
    match rdma::set_netns_mode(socket, mode) {
        Ok(()) => report.changed(rdma::netns_mode(socket)?),
        Err(ModeError::Busy { .. }) => report.busy(before, namespaces::others(&root.join("proc")), LISTED),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// The mode of now, and who says so: the kernel by netlink, or else its parameter in sysfs. `None` without RDMA.
fn current(sysfs: &Sysfs) -> Result<Option<(NetnsMode, Source)>, Failure> {
    let error = match rdma::open(sysfs).and_then(|mut socket| rdma::netns_mode(&mut socket)) {
        Ok(mode) => return Ok(Some((mode, Source::Netlink))),
        Err(rdma::Error::NoRdma) => return Ok(None),
        Err(error) => error,
    };
    match sysfs.shared_netns_parameter()? {
        Some(true) => Ok(Some((NetnsMode::Shared, Source::Sysfs))),
        Some(false) => Ok(Some((NetnsMode::Exclusive, Source::Sysfs))),
        None => Err(error.into()),
    }
}

/// The mode that the next boot will have, and why.
fn next_boot(root: &Path, kernel: &Kernel) -> Result<NextBoot, Failure> {
    let command_line = fs::read_to_string(root.join("proc/cmdline")).unwrap_or_default();
    let settings = match kernel.ib_core() {
        IbCore::BuiltIn => Vec::new(), // modprobe has nothing to load
        IbCore::Module | IbCore::Missing => Modprobe::below(root).settings()?,
    };
    Ok(NextBoot::of(&settings, modprobe::command_line(&command_line)))
}
