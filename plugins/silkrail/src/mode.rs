//! `silkrail mode`: the node's RDMA mode, now and at the next boot.

mod get;
mod set;

use std::{io::Write, path::Path};

use clap::Subcommand;
use consent::Consent;
use rdma::NetnsMode;
use rdma_mode::CurrentMode;

pub(crate) use self::set::print as print_change;
use crate::{
    exit::{self, CommandError, CommandExit},
    json,
};

/// Show or set the node's RDMA mode
///
/// In shared mode every pod sees every RDMA device of the node; use it with macvlan and ipvlan. In exclusive mode a
/// device is visible in one network namespace only; use it with SR-IOV VFs.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum ModeCommand {
    /// Show the current mode, the mode at the next boot, and whether they agree
    #[command(after_help = exit::HELP)]
    Get {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set the mode
    ///
    /// The kernel refuses the change while any other network namespace exists. Set the mode at boot, before the
    /// container runtime starts, or persist it and reboot.
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// shared or exclusive
        mode: NetnsMode,
        /// Also set it for later boots, in /etc/modprobe.d/ib_core.conf
        #[arg(long)]
        persist: bool,
        #[command(flatten)]
        consent: Consent,
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
  silkrail mode set exclusive --persist    now if the node is idle, and at later boots in any case
  silkrail mode set shared                 now, and only until the next boot

Exit status:
  0   the mode is set, or was set already
  1   an error; the mode is unchanged
  2   wrong usage
  4   not supported: no RDMA on this node, or the kernel is too old
  10  the mode is unchanged: a reboot (or an idle node) is required";

impl ModeCommand {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        match self {
            Self::Get { json } => {
                let current = CurrentMode::read(root)?;
                if *json {
                    json::print(&current, out)?
                } else {
                    get::print(&current, out)?
                }
                Ok(if current.mode.is_some() { CommandExit::Done } else { CommandExit::Unsupported })
            }
            Self::Set { mode, persist, consent, json } => {
                let set = if consent.is_dry_run() { rdma_mode::preview } else { rdma_mode::ensure };
                let change = set(root, *mode, *persist)?;
                if *json {
                    json::print(&change, out)?
                } else {
                    set::print(&change, out)?
                }
                Ok(if change.needs_reboot() { CommandExit::NeedsReboot } else { CommandExit::Done })
            }
        }
    }
}
