//! `silkrail gc`: reverts attachments whose pods are gone.

mod log;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use ::consent::{Consent, Intent};
use ::gc::{FindingState, GcNode, StaleFinding};
use state::StateDir;

use crate::{
    exit::{CommandError, CommandExit},
    json, periodic, state_dir_warning, table,
};

/// Revert attachments whose pods are gone: addresses, VFs, RDMA devices, masters
///
/// Shows what is stale and why: journals of another boot, of killed ADDs, and of pods whose network namespace is gone;
/// claims, pod map entries and notes without a journal; VLANs and bonds of ifacer that no pod uses. Nothing is changed
/// without --yes or a yes on the terminal. Resources of running pods and of operations in progress are never touched.
/// Files that cannot be parsed are listed and never deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    consent: Consent,
    /// Run now and after each interval until SIGTERM, with a log line for each run and each resource, as in
    /// conf/silkrail-gc; a random delay of up to a fifth is added to each interval
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "yes",
        conflicts_with = "json",
        value_parser = clap::value_parser!(u64).range(1..=86400)
    )]
    every: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    state_dir: PathBuf,
    /// Where other projects' IPAM plugins are, if a journal's path of one no longer exists
    #[arg(long, default_value = "/opt/cni/bin", value_name = "DIR")]
    cni_path: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  silkrail gc          what would be reverted, and the evidence
  silkrail gc --yes    revert it
  silkrail gc --yes --every 600
  silkrail gc --json | jq -r '.[] | select(.state == \"stale\") | .object'

States: stale (dry run), reverted, left (with the reason), in progress (an operation is running), kept (only listed).

Exit status:
  0   done, nothing to do, a dry run, or the answer is no; with --every, terminated by SIGTERM, SIGINT or SIGHUP
  1   an error, or the running pods cannot be determined from here: run it on the node, or in a container
      with its PID and network namespaces
  2   wrong usage
  3   something could not be reverted; with --every it is logged, and the next run tries it again";

impl GcArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        if let Some(seconds) = self.every {
            return periodic::repeat(Duration::from_secs(seconds), || {
                Ok(log::run(&self.clean_up(root)?, out)?)
            });
        }
        let intent = self.consent.intent(self.json, Intent::Show);
        let mut findings = match intent {
            Intent::Act => self.clean_up(root)?,
            Intent::Show | Intent::Ask => self.find(root)?,
        };
        if self.json {
            json::print(&findings, out)?;
        } else {
            print(&findings, intent == Intent::Ask, out)?;
            state_dir_warning::warn_if_missing(&self.state_dir, out)?;
        }
        let is_stale = |finding: &StaleFinding| finding.verdict == FindingState::Stale;
        if intent == Intent::Ask && findings.iter().any(is_stale) && consent::confirmed(out)? {
            findings = self.clean_up(root)?;
            print(&findings, false, out)?;
        }
        let left = findings.iter().any(|finding| finding.verdict == FindingState::Left);
        Ok(if left { CommandExit::Refused } else { CommandExit::Done })
    }

    fn find(&self, root: &Path) -> Result<Vec<StaleFinding>, CommandError> {
        let node = node(root, &self.state_dir, &self.cni_path);
        Ok(::gc::find(&node, silkrail_cni::find)?)
    }

    /// Reverts what is stale, and records that.
    fn clean_up(&self, root: &Path) -> Result<Vec<StaleFinding>, CommandError> {
        let node = node(root, &self.state_dir, &self.cni_path);
        let findings = ::gc::clean_up(&node, silkrail_cni::find)?;
        // Before printing, which fails if nobody reads the output.
        ::gc::record(&node, &findings)?;
        Ok(findings)
    }
}

fn node(root: &Path, state_dir: &Path, cni_path: &Path) -> GcNode {
    // The plugins need an absolute path. If the directory does not exist, there is nothing to revert.
    let state = StateDir::at(fs::canonicalize(state_dir).unwrap_or_else(|_| state_dir.to_owned()));
    GcNode { root: root.to_owned(), state, cni_path: cni_path.to_owned() }
}

/// Returns stale resources, and those that `gc` only lists, for `silkrail doctor`.
pub(crate) fn stale_resources(
    root: &Path,
    state_dir: &Path,
) -> Result<Vec<::doctor::StaleResource>, CommandError> {
    let findings = ::gc::find(&node(root, state_dir, Path::new("")), silkrail_cni::find)?;
    Ok(findings.into_iter().filter_map(leftover).collect())
}

/// The doctor's form of a finding; `None` while an operation is in progress on it.
fn leftover(finding: StaleFinding) -> Option<::doctor::StaleResource> {
    let stale = match finding.verdict {
        FindingState::Stale => true,
        FindingState::Kept => false,
        FindingState::InProgress | FindingState::Reverted | FindingState::Left => return None,
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

fn print(findings: &[StaleFinding], is_asked: bool, out: &mut dyn Write) -> Result<(), CommandError> {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    if !findings.is_empty() {
        table::print(out, HEAD, &findings.iter().map(cells).collect::<Vec<_>>())?;
    }
    for finding in findings {
        if let Some(why) = &finding.why_left {
            writeln!(out, "left: {} {}: {why}", finding.what, finding.object)?;
        }
    }
    match (count(FindingState::Stale), count(FindingState::Reverted), count(FindingState::Left)) {
        (0, 0, 0) => writeln!(out, "nothing to revert")?,
        (0, reverted, left) => writeln!(out, "{reverted} reverted, {left} left")?,
        (stale, ..) if is_asked => writeln!(out, "{stale} to revert")?,
        (stale, ..) => writeln!(out, "{stale} to revert; {}", consent::NOTHING_DONE)?,
    }
    Ok(())
}
