//! `silkrail tune`: settings of the node that RDMA depends on.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use ::tune::{SettingChange, SettingOutcome, TuneProfile, Tuner};
use consent::{Consent, Intent};
use serde::Serialize;

use crate::{
    exit::{CommandError, CommandExit, PROFILE},
    json, table,
};

/// Compare, set and restore settings of the node that RDMA depends on
///
/// The settings are NUMA balancing, the size of the neighbour table, CPU governors, the limit of locked memory of
/// containers, and the type of service of RoCE. `apply` saves the former values, and `revert` restores them, except those
/// that were changed in the meantime.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum TuneCommand {
    /// Show the settings that differ from the profile
    Check {
        #[command(flatten)]
        profile: ProfileFile,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set what differs from the profile
    ///
    /// Kernel parameters are also set for later boots, in /etc/sysctl.d/90-silkrail.conf. Governors and the type of service
    /// are not: run this command at each boot.
    Apply {
        #[command(flatten)]
        profile: ProfileFile,
        #[command(flatten)]
        consent: Consent,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Restore the values from before `tune apply`
    Revert {
        #[command(flatten)]
        consent: Consent,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The source of the wanted settings.
#[derive(Debug, clap::Args)]
pub(crate) struct ProfileFile {
    /// YAML file with the wanted settings; the others have their defaults
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  silkrail tune check
  silkrail tune apply --yes
  silkrail tune revert --yes

A profile, with the defaults:
  numaBalancingOff: true     # kernel.numa_balancing = 0
  neighbours: 16384          # net.*.neigh.default.gc_thresh*: at least this many
  multiRail: false           # true: arp_ignore, arp_announce, rp_filter for several rails of one subnet
  governor: performance      # of all CPUs; '' leaves it unchanged
  memlock: true              # LimitMEMLOCK=infinity for the container runtime
  # roceTos: 106             # of rdma_cm connections: 4 times the DSCP, plus 2 for ECN

Exit status:
  0   done, nothing to do, a dry run, or the answer is no
  1   an error
  2   wrong usage, or an invalid profile
  6   check: a setting differs from the profile";

const HEAD: [&str; 4] = ["SETTING", "IS", "SHOULD-BE", "RESULT"];

/// The result of a subcommand, as printed with `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TuneReport {
    /// The changes that were made, or would be made.
    changes: Vec<SettingOutcome>,
    /// Whether the changes were made.
    done: bool,
    /// Settings that this node does not have.
    absent: Vec<String>,
    /// Manual steps that are needed for the changes to take effect.
    to_do: Vec<String>,
}

impl TuneCommand {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let tuning = Tuner::of(root);
        match self {
            Self::Check { profile, json } => {
                let report = compare(&tuning, &profile.read()?)?;
                report.print(*json, "to set these: silkrail tune apply --yes", out)?;
                Ok(if report.changes.is_empty() { CommandExit::Done } else { CommandExit::Found })
            }
            Self::Apply { profile, consent, json } => {
                let report = compare(&tuning, &profile.read()?)?;
                let apply = |report: TuneReport| {
                    let changes = report.changes.into_iter().map(|outcome| outcome.change).collect();
                    Ok(TuneReport { changes: tuning.apply(changes)?, done: true, ..report })
                };
                report.with_consent(*consent, *json, apply, out)
            }
            Self::Revert { consent, json } => {
                let revert = |_| Ok(TuneReport::done(tuning.revert()?));
                saved_changes(root)?.with_consent(*consent, *json, revert, out)
            }
        }
    }
}

impl ProfileFile {
    fn read(&self) -> Result<TuneProfile, CommandError> {
        let Some(path) = &self.profile else { return Ok(TuneProfile::default()) };
        let text = fs::read_to_string(path).map_err(|source| CommandError::NoNodeFile {
            what: PROFILE,
            path: path.clone(),
            source,
        })?;
        TuneProfile::parse(&text).map_err(|source| CommandError::Profile { path: path.clone(), source })
    }
}

fn compare(tuning: &Tuner, profile: &TuneProfile) -> Result<TuneReport, CommandError> {
    let (changes, absent) = tuning.compare(profile)?;
    let changes: Vec<_> = changes.into_iter().map(|change| SettingOutcome { change, error: None }).collect();
    let to_do = changes.iter().filter_map(|outcome| outcome.change.knob.remedy()).collect();
    Ok(TuneReport { changes, done: false, absent: absent.iter().map(ToString::to_string).collect(), to_do })
}

/// Returns the changes that `tune revert` would make, last change first.
fn saved_changes(root: &Path) -> Result<TuneReport, CommandError> {
    let memory = ::tune::SavedSettings::read(root)?;
    let back = |change: SettingChange| SettingChange { from: change.to, to: change.from, ..change };
    let changes =
        memory.changes.into_iter().rev().map(|change| SettingOutcome { change: back(change), error: None });
    Ok(TuneReport { changes: changes.collect(), done: false, absent: Vec::new(), to_do: Vec::new() })
}

impl TuneReport {
    /// Shows the planned changes, and makes them as far as the user has consented.
    fn with_consent(
        self,
        consent: Consent,
        as_json: bool,
        act: impl FnOnce(Self) -> Result<Self, CommandError>,
        out: &mut dyn Write,
    ) -> Result<CommandExit, CommandError> {
        let intent = consent.intent(as_json, Intent::Show);
        let report = match intent {
            Intent::Act => act(self)?,
            Intent::Show => self,
            Intent::Ask => {
                self.print(false, "", out)?;
                if self.changes.is_empty() || !consent::confirmed(out)? {
                    return Ok(CommandExit::Done);
                }
                act(self)?
            }
        };
        report.print(as_json, consent::NOTHING_DONE, out)?;
        Ok(report.exit())
    }

    /// The result of `tune revert --yes`.
    fn done(outcomes: Vec<SettingOutcome>) -> Self {
        let to_do = outcomes.iter().filter_map(|outcome| outcome.change.knob.remedy()).collect();
        let back = |outcome: SettingOutcome| {
            let SettingChange { knob, from, to } = outcome.change;
            SettingOutcome { change: SettingChange { knob, from: to, to: from }, ..outcome }
        };
        Self { changes: outcomes.into_iter().map(back).collect(), done: true, absent: Vec::new(), to_do }
    }

    fn exit(&self) -> CommandExit {
        if self.changes.iter().any(|outcome| outcome.error.is_some()) {
            CommandExit::Failed
        } else {
            CommandExit::Done
        }
    }

    fn print(&self, as_json: bool, hint: &str, out: &mut dyn Write) -> Result<(), CommandError> {
        if as_json {
            return json::print(self, out);
        }
        if self.changes.is_empty() {
            writeln!(out, "nothing to do")?;
            return Ok(());
        }
        let result = |outcome: &SettingOutcome| match (&outcome.error, self.done) {
            (Some(error), _) => format!("failed: {error}"),
            (None, true) => "set".into(),
            (None, false) => String::new(),
        };
        let row = |outcome: &SettingOutcome| {
            let SettingChange { knob, from, to } = &outcome.change;
            [knob.to_string(), from.clone(), to.clone(), result(outcome)]
        };
        table::print(out, HEAD, &self.changes.iter().map(row).collect::<Vec<_>>())?;
        if !self.done {
            writeln!(out, "{hint}")?;
        } else {
            self.to_do.iter().try_for_each(|to_do| writeln!(out, "to do: {to_do}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ::tune::Setting;

    use super::*;

    fn outcome(name: &str, error: Option<&str>) -> SettingOutcome {
        let knob = match name {
            "crio" => Setting::Memlock { service: name.into() },
            name => Setting::Sysctl { name: name.into() },
        };
        let change = SettingChange { knob, from: "1".into(), to: "0".into() };
        SettingOutcome { change, error: error.map(str::to_owned) }
    }

    #[test]
    fn one_failed_change_is_a_failure_and_what_is_left_to_do_is_told_after_it() {
        let report = TuneReport::done(vec![outcome("a", Some("EACCES")), outcome("crio", None)]);
        assert_eq!(report.exit(), CommandExit::Failed);
        let mut out = Vec::new();
        report.print(false, "hint", &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[1..3], ["a 0 1 failed: EACCES", "LimitMEMLOCK of crio 0 1 set"]);
        assert!(lines[3].starts_with("to do: systemctl daemon-reload") && !text.contains("hint"), "{text}");
        let planned =
            TuneReport { changes: vec![outcome("a", None)], done: false, absent: vec![], to_do: vec![] };
        assert_eq!(planned.exit(), CommandExit::Done);
    }
}
