//! `silkrail install`: installs the executables on the node.

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
};

use consent::Consent;
use installer::{
    InstallAction, InstallOptions, InstallStore, Installer, NameSelection, PlannedFile, ReplacedFile,
};
use serde::Serialize;
use silkrail_cni::PLUGINS;

use crate::{
    exit::{CommandError, CommandExit},
    json, table,
};

/// Install the CNI plugins on this node
///
/// Each file is written under a temporary name, run once, and renamed: a runtime that calls a plugin at that moment runs
/// either the old file or the new one. Files of other projects with these names, such as the Go plugins, are saved for
/// `silkrail uninstall`; Spiderpool's own executable is not replaced. Files that are up to date are not touched, so the
/// command can run at every boot. If a run is killed, the next one completes it. No network configuration is written.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InstallArgs {
    /// Directory of the executables, or of its `cni` and `bin` [default: the directory of this program]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Directory in which this node's container runtime looks for plugins
    #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin")]
    to: PathBuf,
    /// Also install silkrail and silkraild, into this directory
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Plugins: all, prefixed-only (silkrail-macvlan and so on, next to the Go plugins), or a comma-separated list
    #[arg(long, default_value = "all", value_parser = chosen)]
    names: PluginNamesArg,
    /// Also replace Spiderpool's executable; its agent is then no longer informed of released addresses
    #[arg(long, value_name = "NAME", value_parser = ["spiderpool"])]
    replace: Vec<String>,
    /// Also replace a newer release
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    consent: Consent,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  target/dist/bin/silkrail install --bin-dir /usr/local/bin    from the output of hack/build
  silkrail install --from target/dist --dry-run                what would be done
  silkrail install --names prefixed-only                       next to the Go plugins
  silkrail install --to /var/lib/rancher/k3s/data/cni          k3s
  silkrail install --replace spiderpool                        in a cluster that no longer runs Spiderpool

The list of installed files and the replaced files are in /var/lib/silkrail/install.

Exit status:
  0   done, nothing to do, or a dry run
  1   an error: no executables, wrong architecture, or a directory that is missing, read-only or a symbolic link
  2   wrong usage
  3   refused: a newer release is installed
  5   timed out waiting for another installation";

/// Plugin names under which another project's program may be in use.
const PROTECTED_NAMES: [&str; 1] = ["spiderpool"];

const HEAD: [&str; 4] = ["FILE", "ACTION", "WAS", "KEPT"];

/// The result, as printed with `--json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InstallReport {
    dry_run: bool,
    files: Vec<InstallRow>,
    next: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InstallRow {
    path: PathBuf,
    /// `install`, `upgrade`, `replace`, `unchanged` or `left alone`.
    action: &'static str,
    sha256: String,
    release: String,
    /// The release of the replaced file, if it is one of Silkrail's.
    was: Option<String>,
    /// What `silkrail uninstall` restores: the path of a saved file, or a symbolic link.
    kept: Option<String>,
}

/// The names to install; each is the name of a plugin.
#[derive(Debug, Clone)]
struct PluginNamesArg(Vec<String>);

fn chosen(text: &str) -> Result<PluginNamesArg, String> {
    let names = text.parse::<NameSelection>()?.of(&plugins()).map_err(|unknown| unknown.to_string())?;
    Ok(PluginNamesArg(names))
}

fn plugins() -> Vec<&'static str> {
    PLUGINS.iter().map(|(name, _)| *name).collect()
}

impl InstallArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let installation = Installer::new(&self.options(root)?)?;
        let dry_run = self.consent.is_dry_run();
        let planned = if dry_run { installation.plan()? } else { installation.apply()? };
        let files = planned.iter().map(InstallRow::of).collect();
        let report = InstallReport { dry_run, files, next: self.next(&planned) };
        if self.json {
            json::print(&report, out)?;
        } else {
            report.print(out)?;
        }
        Ok(CommandExit::Done)
    }

    fn options(&self, root: &Path) -> Result<InstallOptions, CommandError> {
        Ok(InstallOptions {
            root: root.to_owned(),
            from: self.from.clone().map_or_else(beside_this_program, Ok)?,
            to: self.to.clone(),
            bin_dir: self.bin_dir.clone(),
            plugins: plugins().into_iter().map(str::to_owned).collect(),
            names: self.names.0.clone(),
            spared: PROTECTED_NAMES
                .iter()
                .filter(|name| !self.replace.iter().any(|replaced| replaced == *name))
                .map(|name| (*name).to_owned())
                .collect(),
            force: self.force,
        })
    }

    /// The next steps for the operator.
    fn next(&self, planned: &[PlannedFile]) -> Vec<String> {
        let spared = planned.iter().filter(|file| file.action == InstallAction::LeftAlone).map(|file| {
            format!(
                "{} belongs to another project and was not replaced: if this cluster no longer runs Spiderpool, use --replace \
                 spiderpool; otherwise use the IPAM plugin silkrail-ipam in networks, with separate pools",
                file.path.display()
            )
        });
        if self.consent.is_dry_run() {
            let changes = planned
                .iter()
                .any(|file| !matches!(file.action, InstallAction::Unchanged | InstallAction::LeftAlone));
            return spared
                .chain(changes.then(|| "run the command again without --dry-run".to_owned()))
                .collect();
        }
        let next = [
            "write /etc/silkrail/node.yaml (silkrail apply --help shows an example), then: silkrail apply",
            "silkrail doctor",
        ];
        spared.chain(next.map(str::to_owned)).collect()
    }
}

fn beside_this_program() -> Result<PathBuf, CommandError> {
    let program = env::current_exe().map_err(CommandError::CurrentExe)?;
    Ok(program.parent().unwrap_or(Path::new("/")).to_owned())
}

impl InstallReport {
    fn print(&self, out: &mut dyn Write) -> Result<(), CommandError> {
        let cells: Vec<_> = self.files.iter().map(InstallRow::cells).collect();
        table::print(out, HEAD, &cells)?;
        let stays = [InstallAction::Unchanged, InstallAction::LeftAlone].map(text);
        let changed = self.files.iter().filter(|file| !stays.contains(&file.action)).count();
        match (changed, self.dry_run) {
            (0, _) if self.files.iter().any(|file| file.action == text(InstallAction::LeftAlone)) => {
                writeln!(out, "nothing to do: all other files are up to date")?
            }
            (0, _) => writeln!(out, "nothing to do: all {} files are up to date", self.files.len())?,
            (_, true) => {
                writeln!(out, "{changed} of {} files to install; nothing was done", self.files.len())?
            }
            (_, false) => writeln!(
                out,
                "{changed} of {} files installed; to revert: silkrail uninstall",
                self.files.len()
            )?,
        }
        for next in &self.next {
            writeln!(out, "next: {next}")?;
        }
        Ok(())
    }
}

impl InstallRow {
    fn of(file: &PlannedFile) -> Self {
        let kept = file.origin.as_ref().map(|origin| match origin {
            ReplacedFile::File { sha256, .. } => InstallStore::backup_path(sha256).display().to_string(),
            ReplacedFile::Link { target } => format!("symbolic link to {}", target.display()),
        });
        Self {
            path: file.path.clone(),
            action: text(file.action),
            sha256: file.sha256.to_string(),
            release: file.release.to_string(),
            was: file.was.as_ref().map(ToString::to_string),
            kept,
        }
    }

    fn cells(&self) -> [String; HEAD.len()] {
        let theirs = [InstallAction::Replace, InstallAction::LeftAlone].map(text).contains(&self.action);
        let was = if theirs { "not ours".into() } else { self.was.clone().unwrap_or_default() };
        [self.path.display().to_string(), self.action.into(), was, self.kept.clone().unwrap_or_default()]
    }
}

fn text(action: InstallAction) -> &'static str {
    match action {
        InstallAction::Install => "install",
        InstallAction::Upgrade => "upgrade",
        InstallAction::Replace => "replace",
        InstallAction::Unchanged => "unchanged",
        InstallAction::LeftAlone => "left alone",
    }
}
