//! `silkrail ipam`: the addresses of this node's pods.

mod export;
mod free;
mod fsck;
mod import;
mod node_addresses;
mod release_node;
mod show;
mod spiderpool_status;

use std::{io::Write, path::Path};

use crate::exit::{CommandError, CommandExit};

/// Inspect the addresses that silkrail-ipam has assigned on this node
#[derive(Debug, clap::Subcommand)]
pub(crate) enum IpamCommand {
    Show(show::ShowArgs),
    Fsck(fsck::FsckArgs),
    Free(free::FreeArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    ReleaseNode(release_node::ReleaseNodeArgs),
}

impl IpamCommand {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        match self {
            Self::Show(args) => args.run(root, out),
            Self::Fsck(args) => args.run(root, out),
            Self::Free(args) => args.run(root, out),
            Self::Export(args) => args.run(root, out),
            Self::Import(args) => args.run(out),
            Self::ReleaseNode(args) => args.run(),
        }
    }
}
