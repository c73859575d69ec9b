//! `silkrail gc`: takes back what died without a DEL.
//!
//! CNI's GC is told by the runtime what is valid. Nobody tells us: what is stale is judged by the evidence on the node
//! ([`look`]), and taken back as the plugins' own DEL does ([`take_back`]).

mod finding;
mod look;
mod take_back;

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use plugin::State;

use self::{
    finding::{Finding, Verdict},
    look::Evidence,
};
use crate::{
    exit::{Exit, Failure},
    host, json, table,
};

/// Taking one thing back may bring another to light: a note whose journal has just gone.
const ROUNDS: usize = 5;

/// Take back what died without a DEL: addresses, VFs, RDMA devices
///
/// Shows what is stale and why: journals of another boot, of ADDs that were killed, of pods whose network namespace is
/// dead; claims, pod map entries and notes that no journal tells of. Nothing is done without --yes. What a pod that
/// lives has, and what a call is at work on, is never touched; files that could not be understood are shown and never
/// deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Do it, and say what is left
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = State::DEFAULT, value_name = "DIR")]
    state_dir: PathBuf,
    /// Where IPAM plugins of others are that must be told, if not where they were
    #[arg(long, default_value = "/opt/cni/bin", value_name = "DIR")]
    cni_path: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  silkrail gc          what would be taken back, and the evidence
  silkrail gc --yes    take it back
  silkrail gc --json | jq -r '.[] | select(.state == \"stale\") | .object'

States: stale (dry run), taken back, left (see why), in progress (a call is at work), kept (told of only).

Exit status:
  0   done, nothing to do, or a dry run
  1   an error; or it cannot be judged from here which pods live: run it on the node, not in a container
  2   wrong usage
  3   something could not be taken back";

/// The node as it is to be judged and cleaned.
struct Node {
    root: PathBuf,
    state: State,
    cni_path: PathBuf,
}

impl Args {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<Exit, Failure> {
        let node = Node {
            root: root.to_owned(),
            // The plugins want an absolute path. Where there is no directory there is nothing to take back either.
            state: State::at(fs::canonicalize(&self.state_dir).unwrap_or_else(|_| self.state_dir.clone())),
            cni_path: self.cni_path.clone(),
        };
        journal::boot_id()?;
        let findings = if self.yes { clean(&node)? } else { look::look(&node, &Evidence::look(&node)?)? };
        if self.json {
            json::print(&findings, out)?;
        } else {
            print(&findings, out)?;
            host::tell_if_missing(&self.state_dir, out)?;
        }
        let left = findings.iter().any(|finding| finding.verdict == Verdict::Left);
        Ok(if left { Exit::Refused } else { Exit::Done })
    }
}

/// What is stale, and what is only told of: for `silkrail doctor`.
pub(crate) fn leftovers(root: &Path, state_dir: &Path) -> Result<Vec<::doctor::Leftover>, Failure> {
    let state = State::at(fs::canonicalize(state_dir).unwrap_or_else(|_| state_dir.to_owned()));
    let node = Node { root: root.to_owned(), state, cni_path: PathBuf::new() };
    let findings = look::look(&node, &Evidence::look(&node)?)?;
    Ok(findings.iter().filter_map(Finding::leftover).collect())
}

/// Takes back what is stale, looks again, and says what became of each.
fn clean(node: &Node) -> Result<Vec<Finding>, Failure> {
    host::is_the_nodes(&node.root)?;
    let mut tried = Vec::new();
    // Why a try failed; empty if it did not.
    let mut outcomes = BTreeMap::new();
    for _ in 0..ROUNDS {
        let evidence = Evidence::look(node)?;
        let mut todo = look::look(node, &evidence)?;
        todo.retain(|finding| finding.verdict == Verdict::Stale && !outcomes.contains_key(&finding.key()));
        if todo.is_empty() {
            break;
        }
        todo.sort_by_cached_key(take_back::order);
        for finding in todo {
            let why = take_back::take_back(node, &finding, &evidence).err().map(|why| why.to_string());
            outcomes.insert(finding.key(), why.unwrap_or_default());
            tried.push(finding);
        }
    }
    let mut rest = look::look(node, &Evidence::look(node)?)?;
    for finding in rest.iter_mut().filter(|finding| finding.verdict == Verdict::Stale) {
        let why = outcomes.remove(&finding.key()).filter(|why| !why.is_empty());
        finding.left(why.unwrap_or_else(|| "it is there again, or still".into()));
    }
    // Whatever is not there any more.
    tried.retain(|finding| outcomes.contains_key(&finding.key()));
    Ok(tried.into_iter().map(Finding::taken_back).chain(rest).collect())
}

fn print(findings: &[Finding], out: &mut dyn Write) -> Result<(), Failure> {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    if !findings.is_empty() {
        table::print(out, finding::HEAD, &findings.iter().map(Finding::cells).collect::<Vec<_>>())?;
    }
    for finding in findings {
        if let Some(why) = &finding.why_left {
            writeln!(out, "left: {} {}: {why}", finding.what, finding.object)?;
        }
    }
    match (count(Verdict::Stale), count(Verdict::TakenBack), count(Verdict::Left)) {
        (0, 0, 0) => writeln!(out, "nothing is to be taken back")?,
        (0, back, left) => writeln!(out, "{back} taken back, {left} left")?,
        (stale, ..) => writeln!(out, "{stale} to be taken back; nothing was done: run it again with --yes")?,
    }
    Ok(())
}
