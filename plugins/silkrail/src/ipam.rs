//! `silkrail ipam`: the addresses of this node's pods.

mod fsck;
mod node_addresses;
mod show;

use std::{io::Write, path::Path};

use crate::exit::{CommandError, CommandExit};

/// Inspect the addresses that silkrail-ipam has assigned on this node
#[derive(Debug, clap::Subcommand)]
pub(crate) enum IpamCommand {
    Show(show::ShowArgs),
    Fsck(fsck::FsckArgs),
}

impl IpamCommand {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        match self {
            Self::Show(args) => args.run(root, out),
            Self::Fsck(args) => args.run(root, out),
        }
    }
}
