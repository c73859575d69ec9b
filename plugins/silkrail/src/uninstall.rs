//! `silkrail uninstall`: removes the executables from the node.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
};

use consent::{Consent, Intent};
use installer::{InstallStore, RemovalOutcome, RemovedFile};
use serde::Serialize;
use state::StateDir;

use crate::{
    exit::{CommandError, CommandExit},
    json, table,
};

/// Remove the files of `silkrail install` from this node, and restore the files that they replaced
///
/// A file that was changed after the installation is kept. The command is refused while pods have attachments made by these
/// plugins, because their DEL needs the plugins. On a terminal it asks before it removes anything; if it cannot ask there, for
/// example with --json, it needs --yes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UninstallArgs {
    /// Remove the files even while pods have attachments, which then leak
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    consent: Consent,
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
  silkrail gc --yes && silkrail uninstall --yes

Exit status:
  0   done, nothing to do, a dry run, or the answer is no
  1   an error
  2   wrong usage
  3   refused: pods have attachments; or a file was kept because it was changed
  5   timed out waiting for another installation";

/// The outcome of a file that is not removed.
const LEFT: &str = "left";
const HEAD: [&str; 3] = ["FILE", "OUTCOME", "WHY"];

/// Configuration and state that are not removed.
const KEPT_PATHS: [&str; 4] =
    ["/etc/silkrail", "/etc/modprobe.d/ib_core.conf", "/var/lib/silkrail", StateDir::DEFAULT];

/// The result, as printed with `--json`.
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
    /// `removed`, `restored`, `gone` or `left`.
    outcome: &'static str,
    why: Option<String>,
}

impl UninstallArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        // A person who cannot be asked, because the output goes elsewhere, has not agreed.
        let has_person = io::stdin().is_terminal();
        let intent = self.consent.intent(self.json, if has_person { Intent::Show } else { Intent::Act });
        let planned = self.remove(root, intent != Intent::Act, out)?;
        if intent == Intent::Show && !self.consent.is_dry_run() && !planned.files.is_empty() {
            eprintln!("silkrail: {}", consent::NOTHING_DONE);
        }
        let is_asked = intent == Intent::Ask && !planned.files.is_empty();
        let report =
            if is_asked && consent::confirmed(out)? { self.remove(root, false, out)? } else { planned };
        let left = report.files.iter().any(|file| file.outcome == LEFT);
        Ok(if left && !report.dry_run { CommandExit::Refused } else { CommandExit::Done })
    }

    /// Removes the files, or with `dry_run` finds out what that would do, and prints the result.
    fn remove(
        &self,
        root: &Path,
        dry_run: bool,
        out: &mut dyn Write,
    ) -> Result<UninstallReport, CommandError> {
        let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        let removals =
            installer::uninstall(&InstallStore::of(root), &below(&self.state_dir), self.force, dry_run)?;
        let stays = KEPT_PATHS.map(PathBuf::from).into_iter().filter(|path| below(path).exists()).collect();
        let report =
            UninstallReport { dry_run, files: removals.into_iter().map(UninstallRow::of).collect(), stays };
        if self.json {
            json::print(&report, out)?;
        } else {
            report.print(self.consent.is_dry_run(), out)?;
        }
        Ok(report)
    }
}

impl UninstallReport {
    fn print(&self, has_hint: bool, out: &mut dyn Write) -> Result<(), CommandError> {
        if self.files.is_empty() {
            writeln!(out, "nothing to remove: no file was installed by silkrail install")?;
            return Ok(());
        }
        table::print(out, HEAD, &self.files.iter().map(UninstallRow::cells).collect::<Vec<_>>())?;
        if self.dry_run {
            if has_hint {
                writeln!(out, "{}", consent::NOTHING_DONE)?;
            }
            return Ok(());
        }
        for path in &self.stays {
            writeln!(out, "kept: {}", path.display())?;
        }
        writeln!(out, "next: remove the networks that use these plugins, or change them to other plugins")?;
        Ok(())
    }
}

impl UninstallRow {
    fn of(removal: RemovedFile) -> Self {
        let (outcome, why) = match removal.outcome {
            RemovalOutcome::Removed => ("removed", None),
            RemovalOutcome::Restored => ("restored", None),
            RemovalOutcome::Gone => ("gone", None),
            RemovalOutcome::Kept(why) => (LEFT, Some(why)),
        };
        Self { path: removal.path, outcome, why }
    }

    fn cells(&self) -> [String; HEAD.len()] {
        [self.path.display().to_string(), self.outcome.into(), self.why.clone().unwrap_or_default()]
    }
}
