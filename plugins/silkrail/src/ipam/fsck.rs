//! `silkrail ipam fsck`: whether the store of addresses agrees with the other state of the node.

use std::{collections::HashSet, io::Write, path::Path};

use identifiers::Attachment;
use serde::Serialize;
use state::{StateDir, journals};

use super::node_addresses::{NodeAddresses, StoreArgs};
use crate::{
    exit::{CommandError, CommandExit},
    json, state_dir_warning, table,
};

/// Compare the claims of addresses with the journals of attachments and with the blocks that the node has lost
///
/// It changes nothing. Claims of pods that are gone are listed and released by `silkrail gc`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FsckArgs {
    #[command(flatten)]
    store: StoreArgs,
}

const EXAMPLES: &str = "\
Examples:
  silkrail ipam fsck
  silkrail ipam fsck --json | jq -r '.[].address'

Exit status:
  0   the store is consistent
  1   an error
  2   wrong usage
  6   a problem was found";

/// A problem of the store.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Problem {
    /// The address.
    address: String,
    /// What is wrong.
    problem: &'static str,
    /// What to do.
    remedy: &'static str,
}

impl FsckArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let state = &self.store.state_dir;
        let found = NodeAddresses::read(root, state)?;
        let problems = problems(&found, &StateDir::at(state))?;
        if self.store.json {
            json::print(&problems, out)?;
        } else if problems.is_empty() {
            writeln!(
                out,
                "{} addresses are claimed, and all agree with the other state",
                found.addresses.len()
            )?;
            state_dir_warning::warn_if_missing(state, out)?;
        } else {
            let cells = |one: &Problem| [one.address.clone(), one.problem.to_owned(), one.remedy.to_owned()];
            table::print(
                out,
                ["ADDRESS", "PROBLEM", "REMEDY"],
                &problems.iter().map(cells).collect::<Vec<_>>(),
            )?;
        }
        Ok(if problems.is_empty() { CommandExit::Done } else { CommandExit::Found })
    }
}

fn problems(found: &NodeAddresses, state: &StateDir) -> Result<Vec<Problem>, CommandError> {
    let with_journal: HashSet<Attachment> =
        journals::list(state)?.into_iter().map(|journal| journal.attachment).collect();
    let mut problems = Vec::new();
    for row in &found.addresses {
        let mut add =
            |problem, remedy| problems.push(Problem { address: row.address.to_string(), problem, remedy });
        match row.owner.parse::<Attachment>() {
            Ok(attachment) if row.is_attachment => {
                if !with_journal.contains(&attachment) {
                    add(
                        "its attachment has no journal",
                        "if its pod is gone: silkrail gc, or silkrail ipam free",
                    );
                }
            }
            _ => add("its owner is not an attachment", "silkrail ipam free"),
        }
        if found.withdrawn.iter().any(|block| block.contains(row.address)) {
            add(
                "its block is being released, or was lost to another node",
                "see kubectl get ipblocks and the log of silkraild ipam",
            );
        }
    }
    Ok(problems)
}
