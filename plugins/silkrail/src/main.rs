//! `silkrail`: what an operator asks of a node, and tells it.
//!
//! This file is the table of contents: the commands and their help. Each command is a file.

#![forbid(unsafe_code)]

mod durable;
mod exit;
mod gc;
mod kernel;
mod mode;
mod modprobe;
mod namespaces;
mod pods;
mod table;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use plugin::State;
use rdma::NetnsMode;

use crate::exit::{Exit, Failure};

/// RDMA network interfaces for Kubernetes pods: the node's side.
#[derive(Debug, Parser)]
#[command(name = "silkrail", version, after_help = EXIT_CODES)]
struct Cli {
    /// The node's root directory, when run in a container
    #[arg(long, global = true, hide = true, default_value = "/")]
    root: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show or set the node's RDMA mode
    ///
    /// In shared mode every pod sees every RDMA device of the node: for macvlan and ipvlan. In exclusive mode a
    /// device is in one network namespace only: for SR-IOV VFs.
    #[command(subcommand, after_help = MODE_EXAMPLES)]
    Mode(Mode),
    /// List which pod has which RDMA device
    #[command(after_help = PODS_EXAMPLES)]
    Pods {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where the plugins keep their state
        #[arg(long, default_value = State::DEFAULT, value_name = "DIR")]
        state_dir: PathBuf,
    },
    /// Take back what died without a DEL: addresses, VFs, RDMA devices
    ///
    /// Shows what is stale and why: journals of another boot, of ADDs that were killed, of pods whose network namespace
    /// is dead; claims, pod map entries and notes that no journal tells of. Nothing is done without --yes. What a pod
    /// that lives has, and what a call is at work on, is never touched; files that could not be understood are shown
    /// and never deleted.
    #[command(after_help = GC_EXAMPLES)]
    Gc {
        /// Do it, and say what is left
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where the plugins keep their state
        #[arg(long, default_value = State::DEFAULT, value_name = "DIR")]
        state_dir: PathBuf,
        /// Where IPAM plugins of others are that must be told, if not where they were
        #[arg(long, default_value = "/opt/cni/bin", value_name = "DIR")]
        cni_path: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Show the mode of now, the mode of the next boot, and whether they agree
    #[command(after_help = EXIT_CODES)]
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
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

const EXIT_CODES: &str = "\
Exit status:
  0   done, or nothing to do
  1   an error
  2   wrong usage
  3   gc: something could not be taken back
  4   not supported: no RDMA on this node, or a kernel too old
  10  a reboot (or an idle node) is needed";

const MODE_EXAMPLES: &str = "\
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

const PODS_EXAMPLES: &str = "\
Examples:
  silkrail pods
  silkrail pods --json | jq -r '.[] | select(.rdma.ibdev == \"mlx5_5\") | .pod.name'

Exit status:
  0   done
  1   an error
  2   wrong usage";

const GC_EXAMPLES: &str = "\
Examples:
  silkrail gc          what would be taken back, and the evidence
  silkrail gc --yes    take it back
  silkrail gc --json | jq -r '.[] | select(.state == \"stale\") | .object'

States: stale (dry run), taken back, left (see why), in progress (a call is at work), kept (told of only).

Exit status:
  0   done, nothing to do, or a dry run
  1   an error; or it cannot be judged from here which pods live: run it on the node, not in a container
  2   wrong usage
  3   something could not be taken back";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = io::stdout().lock();
    let result = run(&cli, &mut out).and_then(|exit| Ok(out.flush().map(|()| exit)?));
    match result {
        Ok(exit) => exit.into(),
        // Whoever reads has seen enough: `silkrail pods | head -1`.
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Exit::Done.into(),
        Err(failure) => {
            eprintln!("silkrail: {failure}");
            failure.exit().into()
        }
    }
}

fn run(cli: &Cli, out: &mut dyn Write) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Mode(Mode::Get { json }) => mode::get(&cli.root, *json, out),
        Command::Mode(Mode::Set { mode, persist, json }) => mode::set(&cli.root, *mode, *persist, *json, out),
        Command::Pods { json, state_dir } => pods::list(&cli.root, state_dir, *json, out),
        Command::Gc { yes, json, state_dir, cni_path } => {
            let request = gc::Request { root: &cli.root, state_dir, cni_path, yes: *yes, json: *json };
            gc::gc(&request, out)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_mode_that_is_none_is_wrong_usage() {
        for bad in ["Exclusive", "0", "", "both"] {
            let error = Cli::try_parse_from(["silkrail", "mode", "set", bad]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{bad:?}");
        }
        assert!(Cli::try_parse_from(["silkrail", "mode", "set", "exclusive", "--persist"]).is_ok());
    }
}
