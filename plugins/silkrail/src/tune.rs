//! `silkrail tune`: settings of the node that RDMA depends on.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use ::tune::{SettingChange, SettingOutcome, TuneProfile, Tuner};
use serde::Serialize;

use crate::{
    exit::{CommandError, CommandExit, PROFILE},
    json, table,
};

/// Compare, set and take back settings of the node that RDMA depends on
///
/// Page migration, the table of neighbours, CPU governors, how much memory containers may pin, the type of service of
/// RoCE. What each was is remembered, and `revert` gives it back unless somebody set it otherwise since.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum TuneCommand {
    /// Show what is other than it should be
    Check {
        #[command(flatten)]
        profile: ProfileFile,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set what is other than it should be
    ///
    /// Kernel parameters are also kept for the next boot, in /etc/sysctl.d/90-silkrail.conf. Governors and the type of
    /// service are not: run it at each boot.
    Apply {
        #[command(flatten)]
        profile: ProfileFile,
        /// Do it; without it nothing is done
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give back what was set
    Revert {
        /// Do it; without it nothing is done
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The wanted settings.
#[derive(Debug, clap::Args)]
pub(crate) struct ProfileFile {
    /// What should be; what it does not say is as without it
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  silkrail tune check
  silkrail tune apply --yes
  silkrail tune revert --yes

A profile, with what holds without one:
  numaBalancingOff: true     # kernel.numa_balancing = 0
  neighbours: 16384          # net.*.neigh.default.gc_thresh*: so many at least
  multiRail: false           # true: arp_ignore, arp_announce, rp_filter for several rails of one subnet
  governor: performance      # of all CPUs; '' leaves them
  memlock: true              # LimitMEMLOCK=infinity for the container runtime
  # roceTos: 106             # of what rdma_cm connects: 4 times the DSCP, and 2 for ECN

Exit status:
  0   done, nothing to do, or a dry run
  1   an error
  2   wrong usage, or a wrong profile
  6   check: something is other than it should be";

const HEAD: [&str; 4] = ["SETTING", "IS", "SHOULD-BE", "RESULT"];

/// What is printed as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TuneReport {
    /// What was done, or would be.
    changes: Vec<SettingOutcome>,
    /// Whether it was done.
    done: bool,
    /// Settings that this node does not have.
    absent: Vec<String>,
    /// What is to be done by hand for it to take effect.
    to_do: Vec<String>,
}

impl TuneCommand {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let tuning = Tuner::of(root);
        match self {
            Self::Check { profile, json } => {
                let report = compare(&tuning, &profile.read()?)?;
                report.print(*json, "silkrail tune apply --yes sets it", out)?;
                Ok(if report.changes.is_empty() { CommandExit::Done } else { CommandExit::Found })
            }
            Self::Apply { profile, yes, json } => {
                let mut report = compare(&tuning, &profile.read()?)?;
                if *yes {
                    let changes = report.changes.into_iter().map(|outcome| outcome.change).collect();
                    report.changes = tuning.apply(changes)?;
                    report.done = true;
                }
                report.print(*json, "nothing was done; run it again with --yes", out)?;
                Ok(report.exit())
            }
            Self::Revert { yes, json } => {
                let report = if *yes { TuneReport::done(tuning.revert()?) } else { saved_changes(root)? };
                report.print(*json, "nothing was done; run it again with --yes", out)?;
                Ok(report.exit())
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

/// What a revert would do.
fn saved_changes(root: &Path) -> Result<TuneReport, CommandError> {
    let memory = ::tune::SavedSettings::read(root)?;
    let back = |change: SettingChange| SettingChange { from: change.to, to: change.from, ..change };
    let changes =
        memory.changes.into_iter().rev().map(|change| SettingOutcome { change: back(change), error: None });
    Ok(TuneReport { changes: changes.collect(), done: false, absent: Vec::new(), to_do: Vec::new() })
}

impl TuneReport {
    /// What was taken back.
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
