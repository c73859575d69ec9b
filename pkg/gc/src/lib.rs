//! Finds and reverts attachments whose pods are gone.
//!
//! For CNI's GC the runtime supplies the list of valid attachments. This crate has no such list: it determines what is stale
//! by the evidence on the node ([`find`]), and reverts it as the plugins' own DEL does ([`clean_up`]).

#![forbid(unsafe_code)]

mod error;
mod evidence;
mod find_plugin;
mod finding;
mod gc_node;
mod judge;
mod masters;
mod record;
mod revert;

use std::collections::BTreeMap;

use self::evidence::GcEvidence;
pub use self::{
    error::Error,
    find_plugin::FindPlugin,
    finding::{FindingKind, FindingState, StaleFinding},
    gc_node::GcNode,
    record::record,
};

/// Reverting one thing may orphan another, such as a note whose journal was just removed.
const ROUNDS: usize = 5;

/// Returns everything that is stale, in progress, or only listed.
///
/// # Errors
/// If the running pods cannot be determined from this process, or state cannot be read.
pub fn find(node: &GcNode, plugin: FindPlugin) -> Result<Vec<StaleFinding>, Error> {
    // Without the boot ID, state of another boot cannot be recognized.
    journal::boot_id().map_err(journal::Error::from)?;
    judge::find(node, plugin, &GcEvidence::scan(node)?)
}

/// Reverts what is stale, checks again, and returns the outcome of each finding.
///
/// # Errors
/// As [`find`], and if this process is not in the node's network namespace. What could not be reverted is not an error but
/// a [`FindingState::Left`].
pub fn clean_up(node: &GcNode, plugin: FindPlugin) -> Result<Vec<StaleFinding>, Error> {
    netns::require_node_netns(&node.root)?;
    journal::boot_id().map_err(journal::Error::from)?;
    let mut tried = Vec::new();
    // The error of each attempt; empty if it succeeded.
    let mut outcomes = BTreeMap::new();
    for _ in 0..ROUNDS {
        let evidence = GcEvidence::scan(node)?;
        let mut todo = judge::find(node, plugin, &evidence)?;
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
    let mut rest = judge::find(node, plugin, &GcEvidence::scan(node)?)?;
    for finding in &mut rest {
        let why = outcomes.remove(&finding.key()).filter(|why| !why.is_empty());
        if finding.verdict == FindingState::Stale {
            finding.mark_left(why.unwrap_or_else(|| "it was reverted, but exists again or still".into()));
        }
    }
    // What no longer exists.
    tried.retain(|finding| outcomes.contains_key(&finding.key()));
    Ok(tried.into_iter().map(StaleFinding::cleaned_up).chain(rest).collect())
}
