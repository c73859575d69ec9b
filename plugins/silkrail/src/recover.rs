//! `silkrail recover`: brings one function back to work.

mod plan;

use std::{
    io::Write,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use inventory::{Inventory, Node};
use plugin::State;
use rtnl::Handle;
use serde::Serialize;

use self::plan::{Function, Step};
use crate::{
    apply::{alone, system},
    exit::{Exit, Failure},
    host, json,
};

/// Bring a PF or VF back to work: plan first, then with --yes
///
/// Chooses what is gentlest: a driver for a function that has none, a link that goes up. A link that goes down and up, a
/// new start of the driver, or a reset of the function, only if it is asked for. Nothing is done to what is in use: pods,
/// processes that have the RDMA device open, VFs of a PF. A PF whose driver begins anew loses its VFs, so that needs
/// --force-pf; afterwards `silkrail apply` makes them. No route is guessed, no module unloaded, no cache dropped.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The PF or VF: its link, PCI address or RDMA device
    function: String,
    /// What to do; without it, what is gentlest of what may help
    #[arg(long, value_name = "WAY")]
    by: Option<Way>,
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
    #[arg(long, default_value = State::DEFAULT, value_name = "DIR")]
    state_dir: std::path::PathBuf,
}

/// What may bring a function back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Way {
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

/// How long a link may take to have its carrier.
const CARRIER: Duration = Duration::from_secs(10);

/// What is printed as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    function: String,
    /// What is wrong with it.
    wrong: Vec<String>,
    steps: Vec<Step>,
    /// Who is in the way.
    refused: Vec<String>,
    done: bool,
    /// What is wrong with it afterwards.
    left: Vec<String>,
}

impl Args {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<Exit, Failure> {
        host::is_the_nodes(root)?;
        let node = Node { root: root.to_owned(), state: State::at(&self.state_dir) };
        // `silkrail apply` may be about to change the same function, or be at it.
        let _alone = if self.yes { Some(alone(&node, Duration::from_secs(self.timeout))?) } else { None };
        let function = find(&node, &self.function)?;
        let steps = function.plan(self.by);
        let mut report = Report {
            function: function.name(),
            wrong: function.wrong(),
            refused: function.in_the_way(&steps, self.force_pf),
            steps,
            done: false,
            left: Vec::new(),
        };
        if self.yes && report.refused.is_empty() && !report.steps.is_empty() {
            self.make(&node, &function, &report.steps)?;
            report.done = true;
            report.left = Self::wait(&node, &function)?;
        }
        report.print(self.json, out)?;
        Ok(report.exit())
    }

    /// What is wrong afterwards. A carrier takes its time. A driver that begins anew gives other names at first: a
    /// function is still known by its address.
    fn wait(node: &Node, function: &Function) -> Result<Vec<String>, Failure> {
        let until = Instant::now() + CARRIER;
        loop {
            let wrong = find(node, &function.pci.to_string())?.wrong();
            if wrong.is_empty() || Instant::now() >= until {
                return Ok(wrong);
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn make(&self, node: &Node, function: &Function, steps: &[Step]) -> Result<(), Failure> {
        let system = system(node, Duration::from_secs(self.timeout))?;
        for step in steps {
            eprintln!("{}: {step}", function.name());
            match step {
                Step::Down | Step::Up => function.set_up(&system, *step == Step::Up)?,
                Step::Release => system.release(function.pci)?,
                Step::Reset => system.reset(function.pci)?,
                Step::Bind => system.probe_in_any_case(function.pci, function.should_have_rdma)?,
            }
        }
        Ok(())
    }
}

fn find(node: &Node, name: &str) -> Result<Function, Failure> {
    let inventory = Inventory::read(node)?;
    Function::find(&inventory, name, &Handle::open()?)
        .ok_or_else(|| Failure::NoFunction { wanted: name.to_owned() })
}

impl Report {
    fn exit(&self) -> Exit {
        match (&self.refused[..], self.done, &self.left[..]) {
            ([_, ..], ..) => Exit::Refused,
            (_, true, [_, ..]) => Exit::Found,
            _ => Exit::Done,
        }
    }

    fn print(&self, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
        if as_json {
            return json::print(self, out);
        }
        let name = &self.function;
        match &self.wrong[..] {
            [] => writeln!(out, "{name}: nothing is wrong with it as far as the node shows")?,
            wrong => wrong.iter().try_for_each(|what| writeln!(out, "{name}: {what}"))?,
        }
        for why in &self.refused {
            writeln!(out, "{name}: refused: {why}")?;
        }
        match (&self.steps[..], self.done, &self.left[..]) {
            ([], ..) => {}
            (steps, false, _) => {
                let steps: Vec<_> = steps.iter().map(ToString::to_string).collect();
                writeln!(out, "{name}: to be done: {}", steps.join(", then "))?;
                if self.refused.is_empty() {
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
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn who_recovers_waits_for_who_applies() {
        let root = tempfile::tempdir().unwrap();
        for process in ["self", "1"] {
            let dir = root.path().join("proc").join(process).join("ns");
            fs::create_dir_all(&dir).unwrap();
            symlink("net:[1]", dir.join("net")).unwrap();
        }
        let state_dir = root.path().join("run");
        let node = Node { root: root.path().to_owned(), state: State::at(&state_dir) };
        let args = Args {
            function: "eth0".into(),
            by: None,
            yes: true,
            force_pf: false,
            timeout: 1,
            json: false,
            state_dir,
        };
        let other = alone(&node, Duration::ZERO).unwrap();
        let busy = args.run(root.path(), &mut Vec::new()).unwrap_err();
        assert!(matches!(busy.exit(), Exit::TimedOut), "{busy}");
        drop(other);
        let free = args.run(root.path(), &mut Vec::new()).unwrap_err();
        assert!(matches!(free, Failure::NoFunction { .. }), "{free}");
    }
}
