//! `silkrail vf renumber`.

use std::io::Write;

use consent::{Consent, Intent};
use exclusive_rdma::Renumbering;
use inventory::{Inventory, NodePaths};
use plugin_runtime::Node;
use sysfs::Function;

use crate::{
    exit::{CommandError, CommandExit},
    json,
};

/// Closes gaps in the numbers of RDMA device nodes, or shows how.
pub(super) fn renumber(
    paths: &NodePaths,
    consent: Consent,
    json: bool,
    out: &mut dyn Write,
) -> Result<CommandExit, CommandError> {
    netns::require_node_netns(&paths.root)?;
    let mut node = Node::new(paths.state.clone(), Vec::new(), None);
    node.sysfs = paths.sysfs();
    let act = || exclusive_rdma::close_gaps(&node, || free_vfs(paths));
    let intent = consent.intent(json, Intent::Show);
    let mut moves = match intent {
        Intent::Act => act()?,
        Intent::Show | Intent::Ask => exclusive_rdma::preview_gaps(&node, &free_vfs(paths)?)?,
    };
    print(&moves, json, out)?;
    if intent == Intent::Ask && !moves.is_empty() && consent::confirmed(out)? {
        moves = act()?;
        print(&moves, json, out)?;
    }
    Ok(CommandExit::Done)
}

/// Returns the VFs without any evidence of a user.
fn free_vfs(paths: &NodePaths) -> Result<Vec<Function>, CommandError> {
    let inventory = Inventory::read(paths)?;
    let vfs = inventory.pfs.iter().flat_map(|pf| &pf.vfs);
    Ok(vfs.filter(|vf| vf.is_free() && vf.rdma.is_some()).map(|vf| vf.pci.into()).collect())
}

fn print(moves: &[Renumbering], json: bool, out: &mut dyn Write) -> Result<(), CommandError> {
    if json {
        return json::print(&moves, out);
    }
    for Renumbering { device, from, to } in moves {
        writeln!(out, "{device}: {from} -> {to}")?;
    }
    if moves.is_empty() {
        writeln!(out, "no VF that is free has a free number below its own")?;
    } else {
        writeln!(out, "afterwards restart a device plugin that reads the numbers only when it starts")?;
    }
    Ok(())
}
