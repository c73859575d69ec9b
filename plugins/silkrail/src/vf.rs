//! `silkrail vf`: the node's VFs.

mod list;
mod renumber;

use std::{io::Write, path::Path};

use consent::Consent;
use inventory::{Inventory, NodePaths};
use provision::{MacPolicy, NodeFile, PfSelector, PfSpec, VfSpec};
use state::StateDir;

use crate::{
    apply::ApplyOptions,
    exit::{CommandError, CommandExit},
};

/// List, create and delete the node's VFs
///
/// To have the same VFs after each boot, write a node file: see `silkrail apply --help`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum VfCommand {
    /// List PFs and VFs, and what uses them
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where the plugins keep their state
        #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
        state_dir: std::path::PathBuf,
    },
    /// Create VFs, each with a stable MAC address or GUID
    ///
    /// COUNT is the total number of VFs of the PF. If the PF already has a different number, all of its VFs are deleted
    /// and created again. This requires --allow-recreate, and is refused if one of them is in use.
    Create {
        /// The PF: its link, PCI address or RDMA device
        pf: String,
        /// Number of VFs that the PF will have
        count: u32,
        /// Keep the MAC addresses that the driver assigns to the VFs
        #[arg(long)]
        keep_mac: bool,
        #[command(flatten)]
        how: ApplyOptions,
    },
    /// Close gaps in the numbers of RDMA device nodes, as a VF leaves one that is bound to vfio-pci
    ///
    /// In exclusive mode an RDMA device below which a number is free is not moved to a pod, since the kernel would give it that number
    /// and the pod's containers have the former one. The devices with the highest numbers take those that are free. Only VFs that
    /// nothing uses are moved; a VF that the kubelet has allocated to a pod is in use. Afterwards restart a device plugin that reads the
    /// numbers only when it starts.
    Renumber {
        #[command(flatten)]
        consent: Consent,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where the plugins keep their state
        #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
        state_dir: std::path::PathBuf,
    },
    /// Delete all VFs of a PF
    Delete {
        /// The PF: its link, PCI address or RDMA device
        pf: String,
        #[command(flatten)]
        how: ApplyOptions,
    },
}

const EXAMPLES: &str = "\
Examples:
  silkrail vf list
  silkrail vf create ens6f0np0 8
  silkrail vf delete mlx5_0
  silkrail vf list --json | jq -r '.[].vfs[] | select(.usedBy == []) | .pci'

Exit status:
  0   done, or nothing to do
  1   an error
  2   wrong usage: no such PF, or more VFs than it can have
  3   refused: VFs are in use, would have to be recreated, or the node depends on the PF
  4   not supported: the PF has no SR-IOV
  5   timed out waiting for firmware or for another run";

impl VfCommand {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        match self {
            Self::List { json, state_dir } => {
                let node = NodePaths { root: root.to_owned(), state: StateDir::at(state_dir) };
                netns::require_node_netns_if_known(root)?;
                list::list(&Inventory::read(&node)?, *json, out)
            }
            Self::Renumber { consent, json, state_dir } => {
                let node = NodePaths { root: root.to_owned(), state: StateDir::at(state_dir) };
                renumber::renumber(&node, *consent, *json, out)
            }
            Self::Create { pf, count, keep_mac, how } => {
                let mac = if *keep_mac { MacPolicy::Keep } else { MacPolicy::Stable };
                set(root, pf, *count, VfSpec { mac, ..VfSpec::default() }, how, out)
            }
            Self::Delete { pf, how } => set(root, pf, 0, VfSpec::default(), how, out),
        }
    }
}

/// Sets the number of VFs of one PF, by applying a node file with this PF only.
fn set(
    root: &Path,
    name: &str,
    vfs: u32,
    vf: VfSpec,
    how: &ApplyOptions,
    out: &mut dyn Write,
) -> Result<CommandExit, CommandError> {
    let node = NodePaths { root: root.to_owned(), state: StateDir::at(&how.state_dir) };
    let inventory = Inventory::read(&node)?;
    let Some(pf) = inventory.find(name) else {
        let there = inventory.pfs.iter().map(inventory::Pf::name).collect();
        return Err(CommandError::NoPf { wanted: name.into(), there });
    };
    let settings = PfSpec {
        matches: PfSelector { pci: Some(pf.pci), ..PfSelector::default() },
        vfs,
        mtu: None,
        dcb: None,
        vf,
        externally_managed: false,
        optional: false,
        force: false,
    };
    let file = NodeFile { pfs: vec![settings], ..NodeFile::default() };
    how.apply(root, &file, None, out)
}
