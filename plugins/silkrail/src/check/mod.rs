//! `silkrail check`: RDMA tests between nodes.

mod child;
mod collective;
mod duration_text;
mod exit_status;
mod history;
mod local_context;
mod measure;
mod mesh;
mod mesh_print;
mod page;
mod print;
mod probe;
mod restore;
mod serve;
mod terminal;
mod traffic;

use std::{io::Write, path::Path};

use crate::exit::{CommandError, CommandExit};

/// Test RDMA between nodes: measure, judge, store and compare bandwidth and latency
///
/// Run `silkrail check serve` on one node and `silkrail check bw NODE` on another. Both need perftest.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum CheckCommand {
    Serve(serve::ServeArgs),
    Bw(measure::BandwidthArgs),
    Lat(measure::LatencyArgs),
    Mesh(mesh::MeshArgs),
    Probe(probe::ProbeArgs),
    History(history::HistoryArgs),
    Compare(history::CompareArgs),
    Page(page::PageArgs),
    Restore(restore::RestoreArgs),
    Nccl(collective::Nccl),
    Hccl(collective::Hccl),
    #[command(hide = true)]
    Child(child::CheckExecArgs),
}

const EXAMPLES: &str = "\
Examples:
  node-b# silkrail check serve --listen 10.1.70.2:18514 --token-file /etc/silkrail/check.token
  node-a# silkrail check bw 10.1.70.2 --op write --token-file /etc/silkrail/check.token
  node-a# silkrail check lat 10.1.70.2 --op send --max-us 5 --token-file /etc/silkrail/check.token
  admin$ silkrail check mesh 10.1.70.1 10.1.70.2 10.1.70.3 --token-file check.token
  admin$ silkrail check mesh $(cat hosts) --rails --token-file check.token
  node-a# silkrail check history
  node-a# silkrail check compare --last";

impl CheckCommand {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        match self {
            Self::Serve(args) => args.run(root),
            Self::Bw(args) => args.run(root, out),
            Self::Lat(args) => args.run(root, out),
            Self::Mesh(args) => args.run(root, out),
            Self::Probe(args) => args.run(root, out),
            Self::History(args) => args.run(root, out),
            Self::Compare(args) => args.run(root, out),
            Self::Page(args) => args.run(root, out),
            Self::Restore(args) => args.run(root, out),
            Self::Nccl(args) => args.run(root, out),
            Self::Hccl(args) => args.run(root, out),
            Self::Child(args) => args.run(),
        }
    }
}
