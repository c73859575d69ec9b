//! A fault at every system call and at every journal step of the plugins; after each, the node must be as before.
//!
//! A [`campaign`] is one row of the table: a [`subject`] (a plugin with what it needs around it), a verb, a [`fault`]
//! and a [`remedy`] (what puts it right). It has as many rounds as there are points to inject the fault at.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test of its own: it fails by panicking, and its table is its output"
)]

mod campaign;
mod fault;
mod plan;
mod remedy;
mod strace;
mod subject;
mod table;

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use testkit::Binaries;

/// Injects a fault at every point of every plugin's ADD and DEL, puts it right, and looks for leaks.
#[derive(Parser)]
struct FaultsArgs {
    /// Where it runs.
    place: plan::CampaignEnv,
    /// The release executable whose system calls are injected into; journal faults take the debug one, which is
    /// found beside this program.
    #[arg(long)]
    release: PathBuf,
    /// Takes only every N-th point, beginning elsewhere in each campaign.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Only campaigns whose name ("sriov ADD killed at a system call, DEL") has this part; may be repeated.
    #[arg(long)]
    only: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = FaultsArgs::parse();
    let campaigns = plan::of(arguments.place, &arguments.only);
    let release = Binaries::of(&arguments.release);
    let rows = plan::run(&campaigns, &release, arguments.place, arguments.every);
    table::print(&rows);
    if rows.iter().all(table::CampaignRow::is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
