//! `silkrail gc`: takes back what died without a DEL.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use ::gc::{FindingState, GcNode, StaleFinding};
use state::StateDir;

use crate::{
    exit::{CommandError, CommandExit},
    json, state_dir_warning, table,
};

/// Take back what died without a DEL: addresses, VFs, RDMA devices
///
/// Shows what is stale and why: journals of another boot, of ADDs that were killed, of pods whose network namespace is
/// dead; claims, pod map entries and notes that no journal tells of. Nothing is done without --yes. What a pod that
/// lives has, and what a call is at work on, is never touched; files that could not be understood are shown and never
/// deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GcArgs {
    /// Do it, and say what is left
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
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

impl GcArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let node = node(root, &self.state_dir, &self.cni_path);
        let findings = if self.yes { ::gc::clean_up(&node, silkrail_cni::find)? } else { ::gc::find(&node)? };
        if self.json {
            json::print(&findings, out)?;
        } else {
            print(&findings, out)?;
            state_dir_warning::warn_if_missing(&self.state_dir, out)?;
        }
        let left = findings.iter().any(|finding| finding.verdict == FindingState::Left);
        Ok(if left { CommandExit::Refused } else { CommandExit::Done })
    }
}

fn node(root: &Path, state_dir: &Path, cni_path: &Path) -> GcNode {
    // The plugins want an absolute path. Where there is no directory there is nothing to take back either.
    let state = StateDir::at(fs::canonicalize(state_dir).unwrap_or_else(|_| state_dir.to_owned()));
    GcNode { root: root.to_owned(), state, cni_path: cni_path.to_owned() }
}

/// What is stale, and what is only told of: for `silkrail doctor`.
pub(crate) fn stale_resources(
    root: &Path,
    state_dir: &Path,
) -> Result<Vec<::doctor::StaleResource>, CommandError> {
    let findings = ::gc::find(&node(root, state_dir, Path::new("")))?;
    Ok(findings.into_iter().filter_map(leftover).collect())
}

/// What the doctor is told of it; nothing while somebody is at work on it.
fn leftover(finding: StaleFinding) -> Option<::doctor::StaleResource> {
    let stale = match finding.verdict {
        FindingState::Stale => true,
        FindingState::Kept => false,
        FindingState::InProgress | FindingState::TakenBack | FindingState::Left => return None,
    };
    let StaleFinding { what, object, attachment, evidence, .. } = finding;
    Some(::doctor::StaleResource { what: what.to_string(), object, attachment, evidence, stale })
}

const HEAD: [&str; 5] = ["STATE", "WHAT", "ATTACHMENT", "OBJECT", "EVIDENCE"];

fn cells(finding: &StaleFinding) -> [String; HEAD.len()] {
    let attachment = finding.attachment.clone().unwrap_or_default();
    let (state, what) = (finding.verdict.to_string(), finding.what.to_string());
    [state, what, attachment, finding.object.clone(), finding.evidence.clone()]
}

fn print(findings: &[StaleFinding], out: &mut dyn Write) -> Result<(), CommandError> {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    if !findings.is_empty() {
        table::print(out, HEAD, &findings.iter().map(cells).collect::<Vec<_>>())?;
    }
    for finding in findings {
        if let Some(why) = &finding.why_left {
            writeln!(out, "left: {} {}: {why}", finding.what, finding.object)?;
        }
    }
    match (count(FindingState::Stale), count(FindingState::TakenBack), count(FindingState::Left)) {
        (0, 0, 0) => writeln!(out, "nothing is to be taken back")?,
        (0, back, left) => writeln!(out, "{back} taken back, {left} left")?,
        (stale, ..) => writeln!(out, "{stale} to be taken back; nothing was done: run it again with --yes")?,
    }
    Ok(())
}
