//! What died on a node without a DEL, found and reverted.
//!
//! CNI's GC is told by the runtime what is valid. Nobody tells us: what is stale is judged by the evidence on the node
//! ([`find`]), and reverted as the plugins' own DEL does ([`clean_up`]).

#![forbid(unsafe_code)]

mod error;
mod finding;
mod judge;
mod revert;

use std::{collections::BTreeMap, path::PathBuf};

use plugin_runtime::RevertByJournal;
use state::StateDir;

use self::judge::GcEvidence;
pub use self::{
    error::Error,
    finding::{FindingKind, FindingState, StaleFinding},
};

/// The node as it is to be judged and cleaned.
#[derive(Debug)]
pub struct GcNode {
    /// Its root directory.
    pub root: PathBuf,
    /// Where the plugins keep their state. They want an absolute path.
    pub state: StateDir,
    /// Where IPAM plugins of others are looked for, if they are not where they were.
    pub cni_path: PathBuf,
}

/// The plugin of a name.
pub type FindPlugin = fn(&str) -> Option<&'static dyn RevertByJournal>;

/// Reverting one thing may bring another to light: a note whose journal has just gone.
const ROUNDS: usize = 5;

/// Everything that is stale, at work, or only to be told of.
///
/// # Errors
/// If nobody can judge from here who lives, or state cannot be read.
pub fn find(node: &GcNode) -> Result<Vec<StaleFinding>, Error> {
    // Without it nothing is known to be of another boot.
    journal::boot_id()?;
    judge::find(node, &GcEvidence::scan(node)?)
}

/// Reverts what is stale, looks again, and says what became of each.
///
/// # Errors
/// As [`find`]; and if this process is not in the node's network namespace. What could not be reverted is no error, but a
/// [`FindingState::Left`].
pub fn clean_up(node: &GcNode, plugin: FindPlugin) -> Result<Vec<StaleFinding>, Error> {
    netns::require_node_netns(&node.root)?;
    journal::boot_id()?;
    let mut tried = Vec::new();
    // Why a try failed; empty if it did not.
    let mut outcomes = BTreeMap::new();
    for _ in 0..ROUNDS {
        let evidence = GcEvidence::scan(node)?;
        let mut todo = judge::find(node, &evidence)?;
        todo.retain(|finding| {
            finding.verdict == FindingState::Stale && !outcomes.contains_key(&finding.key())
        });
        if todo.is_empty() {
            break;
        }
        todo.sort_by_cached_key(revert::clean_up_order);
        for finding in todo {
            let why = revert::revert(node, plugin, &finding, &evidence).err().map(|why| why.to_string());
            outcomes.insert(finding.key(), why.unwrap_or_default());
            tried.push(finding);
        }
    }
    let mut rest = judge::find(node, &GcEvidence::scan(node)?)?;
    for finding in rest.iter_mut().filter(|finding| finding.verdict == FindingState::Stale) {
        let why = outcomes.remove(&finding.key()).filter(|why| !why.is_empty());
        finding.mark_left(why.unwrap_or_else(|| "it is there again, or still".into()));
    }
    // Whatever is not there any more.
    tried.retain(|finding| outcomes.contains_key(&finding.key()));
    Ok(tried.into_iter().map(StaleFinding::cleaned_up).chain(rest).collect())
}
