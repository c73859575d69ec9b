//! `silkrail recover`: repairs one PF or VF.

use std::{io::Write, path::Path};

use consent::{Consent, Intent};
use inventory::NodePaths;
use provision::{Recover, RecoverReport};
use state::StateDir;

use crate::{
    apply::system,
    exit::{CommandError, CommandExit},
    json,
};

/// Repair a PF or VF that does not work; shows the plan first
///
/// By default only the least disruptive steps are taken: a driver is bound to a function without one, and a link is set up.
/// Setting the link down and up, rebinding the driver and resetting the function must be requested with --by. The command
/// refuses to change a function that is in use: by pods, by processes that have the RDMA device open, or by VFs of a PF.
/// Rebinding the driver of a PF removes its VFs, and requires --force-pf; `silkrail apply` then creates them again. Routes,
/// kernel modules and caches are never changed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecoverArgs {
    /// The PF or VF: its link, PCI address or RDMA device
    function: String,
    /// The method [default: the least disruptive one that may help]
    #[arg(long, value_name = "METHOD")]
    by: Option<RecoverMethod>,
    #[command(flatten)]
    consent: Consent,
    /// Recover a PF even if the node's own traffic may run over it
    #[arg(long)]
    force_pf: bool,
    /// Timeout of one write to the kernel, which may wait for firmware
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    state_dir: std::path::PathBuf,
}

/// A method that is used only on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RecoverMethod {
    /// Set the link down and up
    Bounce,
    /// Unbind the driver and bind it again
    Rebind,
    /// Unbind the driver, reset the function, and bind the driver again
    Reset,
}

const EXAMPLES: &str = "\
Examples:
  silkrail recover ens6f0np0               what would be done
  silkrail recover mlx5_3 --yes
  silkrail recover 0000:af:00.3 --by reset --yes

Exit status:
  0   the function works, a dry run, or the answer is no
  1   an error
  2   wrong usage, or no such function
  3   refused: the function is in use, or the node depends on it
  5   timed out waiting for firmware or for another run
  6   all steps were taken, and the function still does not work";

impl RecoverArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let node = NodePaths { root: root.to_owned(), state: StateDir::at(&self.state_dir) };
        let system = system(&node, self.timeout)?;
        let by = self.by.map(provision::RecoverMethod::from);
        let recover = Recover { function: &self.function, by, force_pf: self.force_pf, node, system };
        let act = || recover.run(&|function, step| eprintln!("{function}: {step}"));
        let intent = self.consent.intent(self.json, Intent::Show);
        let mut recovery = if intent == Intent::Act { act()? } else { recover.preview()? };
        if self.json {
            json::print(&recovery, out)?
        } else {
            print(&recovery, intent == Intent::Ask, out)?
        }
        let is_possible = recovery.refused.is_empty() && !recovery.steps.is_empty();
        if intent == Intent::Ask && is_possible && consent::confirmed(out)? {
            recovery = act()?;
            print(&recovery, false, out)?;
        }
        Ok(exit(&recovery))
    }
}

impl From<RecoverMethod> for provision::RecoverMethod {
    fn from(method: RecoverMethod) -> Self {
        match method {
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

fn print(recovery: &RecoverReport, is_asked: bool, out: &mut dyn Write) -> Result<(), CommandError> {
    let name = &recovery.function;
    match &recovery.wrong[..] {
        [] => writeln!(out, "{name}: no problem found on this node")?,
        wrong => wrong.iter().try_for_each(|what| writeln!(out, "{name}: {what}"))?,
    }
    for why in &recovery.refused {
        writeln!(out, "{name}: refused: {why}")?;
    }
    match (&recovery.steps[..], recovery.done, &recovery.left[..]) {
        ([], ..) => {}
        (steps, false, _) => {
            let steps: Vec<_> = steps.iter().map(ToString::to_string).collect();
            writeln!(out, "{name}: would be done: {}", steps.join(", then "))?;
            if recovery.refused.is_empty() && !is_asked {
                writeln!(out, "{}", consent::NOTHING_DONE)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_or_remains_has_its_exit_status_and_text() {
        let of = |refused: &[&str], done, left: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            let report = RecoverReport {
                function: "eth0".into(),
                wrong: vec!["it is down".into()],
                steps: Vec::new(),
                refused: texts(refused),
                done,
                left: texts(left),
            };
            let mut out = Vec::new();
            print(&report, false, &mut out).unwrap();
            (exit(&report), String::from_utf8(out).unwrap())
        };
        let (refused, text) = of(&["a pod uses it"], false, &[]);
        assert_eq!(
            (refused, text.as_str()),
            (CommandExit::Refused, "eth0: it is down\neth0: refused: a pod uses it\n")
        );
        assert_eq!(of(&[], true, &["it is down"]).0, CommandExit::Found);
        for (done, left) in [(true, &[][..]), (false, &["it is down"])] {
            assert_eq!(of(&[], done, left).0, CommandExit::Done, "{done}");
        }
    }
}
