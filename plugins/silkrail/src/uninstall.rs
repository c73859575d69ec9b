//! `silkrail uninstall`: takes the executables off the node again.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use installer::{InstallStore, RemovalOutcome, RemovedFile};
use serde::Serialize;
use state::StateDir;

use crate::{
    exit::{CommandError, CommandExit},
    json, table,
};

/// Remove what `silkrail install` put on this node, and put back what was there before
///
/// A file that somebody changed since stays. It is refused while pods have attachments made by these plugins: their DEL
/// needs them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UninstallArgs {
    /// Also while pods have attachments: they leak
    #[arg(long)]
    force: bool,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    state_dir: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  silkrail uninstall --dry-run
  silkrail gc --yes && silkrail uninstall

Exit status:
  0   done, nothing to do, or a dry run
  1   an error
  2   wrong usage
  3   refused: pods have attachments; or a file is left that somebody changed
  5   another installation does not end";

const HEAD: [&str; 3] = ["FILE", "OUTCOME", "WHY"];

/// What is the operator's, and stays.
const KEPT_PATHS: [&str; 4] =
    ["/etc/silkrail", "/etc/modprobe.d/ib_core.conf", "/var/lib/silkrail", StateDir::DEFAULT];

/// What is printed for scripts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UninstallReport {
    dry_run: bool,
    files: Vec<UninstallRow>,
    /// Settings and state that are not removed.
    stays: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UninstallRow {
    path: PathBuf,
    /// removed, restored, gone, left.
    outcome: &'static str,
    why: Option<String>,
}

impl UninstallArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        let removals =
            installer::uninstall(&InstallStore::of(root), &below(&self.state_dir), self.force, self.dry_run)?;
        let left = removals.iter().any(|removal| matches!(removal.outcome, RemovalOutcome::Left(_)));
        let stays = KEPT_PATHS.map(PathBuf::from).into_iter().filter(|path| below(path).exists()).collect();
        let report = UninstallReport {
            dry_run: self.dry_run,
            files: removals.into_iter().map(UninstallRow::of).collect(),
            stays,
        };
        if self.json {
            json::print(&report, out)?;
        } else {
            report.print(out)?;
        }
        Ok(if left && !self.dry_run { CommandExit::Refused } else { CommandExit::Done })
    }
}

impl UninstallReport {
    fn print(&self, out: &mut dyn Write) -> Result<(), CommandError> {
        if self.files.is_empty() {
            writeln!(out, "nothing was installed by silkrail install")?;
            return Ok(());
        }
        table::print(out, HEAD, &self.files.iter().map(UninstallRow::cells).collect::<Vec<_>>())?;
        if self.dry_run {
            writeln!(out, "nothing was done: run it again without --dry-run")?;
            return Ok(());
        }
        for path in &self.stays {
            writeln!(out, "stays: {}", path.display())?;
        }
        writeln!(out, "next: remove the networks that name these plugins, or give them others")?;
        Ok(())
    }
}

impl UninstallRow {
    fn of(removal: RemovedFile) -> Self {
        let (outcome, why) = match removal.outcome {
            RemovalOutcome::Removed => ("removed", None),
            RemovalOutcome::Restored => ("restored", None),
            RemovalOutcome::Gone => ("gone", None),
            RemovalOutcome::Left(why) => ("left", Some(why)),
        };
        Self { path: removal.path, outcome, why }
    }

    fn cells(&self) -> [String; HEAD.len()] {
        [self.path.display().to_string(), self.outcome.into(), self.why.clone().unwrap_or_default()]
    }
}
