//! Injects a fault at every system call of the plugins; after recovery, the node must be as before.
//!
//! A [`campaign`] is one row of the table: a [`subject`] (a plugin and its environment), a call, a [`fault`] and a
//! [`remedy`] (the recovery). It has one round for each point that the fault is injected at.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a separate test program: it fails by panicking, and prints a table"
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
use testkit::{Binaries, Share};

/// Injects a fault at every point of every plugin's ADD and DEL, recovers, and checks for leaks.
#[derive(Parser)]
struct FaultsArgs {
    /// The environment that the campaigns need.
    place: plan::CampaignEnv,
    /// The release executable.
    #[arg(long)]
    release: PathBuf,
    /// The share of the points of each campaign: all, or SEED/N. It is one point at least; N consecutive seeds inject at all.
    #[arg(long)]
    share: Share,
    /// Run only campaigns whose name ("sriov ADD killed at a system call, DEL") begins with this text; can be repeated.
    #[arg(long)]
    only: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = FaultsArgs::parse();
    let campaigns = plan::of(arguments.place, &arguments.only);
    let release = Binaries::of(&arguments.release);
    let rows = plan::run(&campaigns, &release, arguments.place, arguments.share);
    table::print(&rows);
    if rows.iter().all(table::CampaignRow::is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
