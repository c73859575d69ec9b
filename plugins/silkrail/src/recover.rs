//! `silkrail recover`: brings one function back to work.

use std::{io::Write, path::Path};

use inventory::NodePaths;
use provision::{Recover, RecoverReport};
use state::StateDir;

use crate::{
    apply::system,
    exit::{CommandError, CommandExit},
    json,
};

/// Bring a PF or VF back to work: plan first, then with --yes
///
/// Chooses what is gentlest: a driver for a function that has none, a link that goes up. A link that goes down and up, a
/// new start of the driver, or a reset of the function, only if it is asked for. Nothing is done to what is in use: pods,
/// processes that have the RDMA device open, VFs of a PF. A PF whose driver begins anew loses its VFs, so that needs
/// --force-pf; afterwards `silkrail apply` makes them. No route is guessed, no module unloaded, no cache dropped.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecoverArgs {
    /// The PF or VF: its link, PCI address or RDMA device
    function: String,
    /// What to do; without it, what is gentlest of what may help
    #[arg(long, value_name = "WAY")]
    by: Option<RecoverMethod>,
    /// Do it; without it nothing is done
    #[arg(long)]
    yes: bool,
    /// Recover a PF even if the node's own traffic may run over it
    #[arg(long)]
    force_pf: bool,
    /// How long firmware may take for one write
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    state_dir: std::path::PathBuf,
}

/// What may bring a function back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RecoverMethod {
    /// The link goes down and up
    Bounce,
    /// The driver lets it go and takes it anew
    Rebind,
    /// The function is reset in between
    Reset,
}

const EXAMPLES: &str = "\
Examples:
  silkrail recover ens6f0np0               what would be done
  silkrail recover mlx5_3 --yes
  silkrail recover 0000:af:00.3 --by reset --yes

Exit status:
  0   it works, or a dry run
  1   an error
  2   wrong usage, or no such function
  3   refused: it is in use, or the node depends on it
  5   firmware or another run did not answer in time
  6   all was done, and it still does not work";

impl RecoverArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let node = NodePaths { root: root.to_owned(), state: StateDir::at(&self.state_dir) };
        let system = system(&node, self.timeout)?;
        let by = self.by.map(provision::RecoverMethod::from);
        let recover = Recover { function: &self.function, by, force_pf: self.force_pf, node, system };
        let recovery = if self.yes {
            recover.run(&|function, step| eprintln!("{function}: {step}"))?
        } else {
            recover.preview()?
        };
        if self.json {
            json::print(&recovery, out)?
        } else {
            print(&recovery, out)?
        }
        Ok(exit(&recovery))
    }
}

impl From<RecoverMethod> for provision::RecoverMethod {
    fn from(way: RecoverMethod) -> Self {
        match way {
            RecoverMethod::Bounce => Self::Bounce,
            RecoverMethod::Rebind => Self::Rebind,
            RecoverMethod::Reset => Self::Reset,
        }
    }
}

fn exit(recovery: &RecoverReport) -> CommandExit {
    match (&recovery.refused[..], recovery.done, &recovery.left[..]) {
        ([_, ..], ..) => CommandExit::Refused,
        (_, true, [_, ..]) => CommandExit::Found,
        _ => CommandExit::Done,
    }
}

fn print(recovery: &RecoverReport, out: &mut dyn Write) -> Result<(), CommandError> {
    let name = &recovery.function;
    match &recovery.wrong[..] {
        [] => writeln!(out, "{name}: nothing is wrong with it as far as the node shows")?,
        wrong => wrong.iter().try_for_each(|what| writeln!(out, "{name}: {what}"))?,
    }
    for why in &recovery.refused {
        writeln!(out, "{name}: refused: {why}")?;
    }
    match (&recovery.steps[..], recovery.done, &recovery.left[..]) {
        ([], ..) => {}
        (steps, false, _) => {
            let steps: Vec<_> = steps.iter().map(ToString::to_string).collect();
            writeln!(out, "{name}: to be done: {}", steps.join(", then "))?;
            if recovery.refused.is_empty() {
                writeln!(out, "nothing was done; run it again with --yes")?;
            }
        }
        (_, true, []) => writeln!(out, "{name}: done; it works again")?,
        (_, true, left) => {
            left.iter().try_for_each(|what| writeln!(out, "{name}: still: {what}"))?;
            writeln!(
                out,
                "{name}: next: silkrail recover {name} --by reset; see dmesg, the cable and the switch"
            )?;
        }
    }
    Ok(())
}
