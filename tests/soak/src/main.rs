//! Random concurrent calls of the plugins, some of them killed, and namespaces that are deleted before the DEL. At the end,
//! after one GC, nothing is left, and no address was assigned to two attachments at the same time.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test of its own: it fails by panicking, and its tally is its output"
)]

mod address_ledger;
mod burst;
mod cluster;
mod counts;
mod exclusive;
mod latency;
mod quiet;
mod random_work;
mod run_end;
mod shared;

use std::{process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};

/// Makes random concurrent calls of the plugins, kills some, deletes namespaces early, and checks for leaks.
#[derive(Parser)]
struct SoakArgs {
    /// Attachments to create.
    mode: SoakJob,
    /// Duration in seconds, after the setup.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Number of concurrent workers in shared mode; in exclusive mode there are four.
    #[arg(long, default_value_t = 64)]
    workers: usize,
    /// Number of nodes in cluster mode.
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// Number of pods of each node in cluster mode.
    #[arg(long, default_value_t = 100)]
    pods: usize,
    /// Number of interfaces of each pod in burst mode.
    #[arg(long, default_value_t = 5)]
    interfaces: usize,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The attachments that the soak test creates.
#[derive(Clone, Copy, ValueEnum)]
enum SoakJob {
    /// macvlan links and addresses from shared pools, in 8 pods, in namespaces of the running kernel.
    Shared,
    /// All 14 VFs of the lab's machine with their RDMA devices.
    Exclusive,
    /// Addresses of a pool of the cluster, on many nodes with agents of their own and one real API server.
    Cluster,
    /// All pods of such a cluster start at once, each with several interfaces.
    Burst,
    /// One node, while nothing else runs: what an ADD takes with the API server up and down.
    Quiet,
}

fn main() -> ExitCode {
    let SoakArgs { mode, seconds, workers, nodes, pods, interfaces, seed } = SoakArgs::parse();
    fastrand::seed(seed);
    let time = Duration::from_secs(seconds);
    let (text, passed) = match mode {
        SoakJob::Shared => counted(&shared::soak(workers, time)),
        SoakJob::Exclusive => counted(&exclusive::soak(time)),
        SoakJob::Cluster => {
            let tally = cluster::soak(nodes, pods, workers.min(8), seconds);
            (tally.to_string(), tally.passed())
        }
        SoakJob::Burst => {
            burst::start_all(burst::BurstSize { nodes, pods, interfaces, workers: workers.min(32) })
        }
        SoakJob::Quiet => quiet::compare(pods),
    };
    println!("{text}");
    if !matches!(mode, SoakJob::Burst | SoakJob::Quiet) {
        println!("{seconds} s from seed {seed}");
    }
    if passed {
        println!("test result: ok. 1 passed; 0 failed");
        ExitCode::SUCCESS
    } else {
        println!("test result: FAILED. 0 passed; 1 failed");
        ExitCode::FAILURE
    }
}

/// Returns what was counted, and whether it is as it should be.
fn counted(counts: &counts::CallCounts) -> (String, bool) {
    (counts.to_string(), counts.passed())
}
