//! `silkrail top`: live rates of RDMA devices and of pods.

mod events;
mod rates;
mod sample;
mod screen;
mod sort_key;
mod tables;
mod usage;

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use exporter::{
    Collector, CollectorSet, Exporter, ExporterOptions, NameFilter, NoWorkloadResolver, ResourceHealthStore,
};
use nix::sys::signal::{Signal, raise};
use state::StateDir;
use sysfs::Sysfs;

use self::{
    events::{Event, Events},
    sample::Sample,
    screen::Screen,
    sort_key::SortKey,
    tables::plain,
    usage::NodeUsage,
};
use crate::exit::{CommandError, CommandExit};

/// Show the traffic of RDMA devices and pods, live: bytes, packets, errors and congestion per second, queue pairs
///
/// On a terminal the tables are refreshed after each interval, the busiest device and pod first. Keys: q quits; b, p, e, c,
/// u, n sort by bytes, packets, errors, congestion, queue pairs, name. Otherwise the tables are printed one after the other.
///
/// The counters are read from the kernel, as silkraild reads them, and not from silkraild: this works on nodes where it does
/// not run or requires a login, and the interval can be shorter than that of its scrapes. Reading changes nothing on the node.
/// A value that a driver does not count is shown as -, not as 0. CNP and pause frames affect all users of a port, so they have
/// no pod; traffic of a device that several pods share belongs to no pod.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// Time between two readings, in seconds
    #[arg(short, long, default_value = "1", value_name = "SECONDS", value_parser = interval)]
    interval: Duration,
    /// Print this number of intervals and exit; never uses the whole screen
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print one interval and exit: the same as -n 1
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Sort by this; the highest first
    #[arg(long, default_value = "bytes", value_name = "KEY")]
    sort: SortKey,
    /// Print one JSON object for each interval, on a line of its own
    #[arg(long)]
    json: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    state_dir: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  silkrail top
  silkrail top --once --sort errors
  silkrail top -i 5 -n 12 --json | jq -c '.devices[] | [.name, .perSecond.receiveBytes]'

Columns: RX and TX are received and sent, B bytes with headers, PKT packets, ERR errors of transport and ports, CNP congestion
notification packets sent and received, PAUSE frames of PFC, DROP packets for which no buffer was free, QP queue pairs.

Exit status:
  0   done, or ended with q, SIGINT, SIGTERM or SIGHUP
  1   an error
  2   wrong usage
  4   no RDMA on this node";

const DEVICE_TIMEOUT: Duration = Duration::from_secs(2);
const KEYS: &str = "q quit, sort: b bytes p packets e errors c congestion u queue pairs n name";
/// The lines of the screen that are not rows: title, two heads, and the line between the tables.
const FIXED_LINES: usize = 5;

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if !(0.1..=3600.0).contains(&seconds) {
        return Err("expected 0.1 to 3600 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

impl TopArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        if !Sysfs::at(root.join("sys")).has_rdma().unwrap_or(true) {
            return Err(rdma::Error::NoRdma.into());
        }
        let has_screen = !self.json && !self.once && self.count.is_none() && io::stdout().is_terminal();
        let keyboard = Some(io::stdin()).filter(|input| has_screen && input.is_terminal());
        let mut events = Events::new(has_screen, keyboard.as_ref())?;
        let (began, mut exporter) = (Instant::now(), self.exporter(root));
        let mut read = || {
            let at = began.elapsed();
            Sample::of(&exporter.collect(), at)
        };
        if has_screen {
            let screen = Screen::enter(io::stdout(), keyboard)?;
            self.show(&screen, &mut read, &mut events)?;
        } else {
            self.print(&mut read, &mut events, out)?;
        }
        Ok(CommandExit::Done)
    }

    fn exporter(&self, root: &Path) -> Exporter {
        let unused =
            [Collector::Mode, Collector::Gids, Collector::Physical, Collector::Owners, Collector::Cgroup];
        let settings = ExporterOptions {
            node: String::new(),
            root: root.to_owned(),
            state_dir: self.state_dir.clone(),
            collectors: unused.into_iter().fold(CollectorSet::default(), CollectorSet::without),
            devices: NameFilter::default(),
            // Nobody reads the metrics.
            metrics: NameFilter { include: Vec::new(), exclude: vec!["*".into()] },
            device_timeout: DEVICE_TIMEOUT,
            kept_files: 0,
            spiderpool: false,
            psn_interval: Duration::from_secs(1),
            psn_drivers: Vec::new(),
            counter_file: None,
            counter_sink: None,
            resources: ResourceHealthStore::default(),
        };
        Exporter::new(settings, Arc::new(NoWorkloadResolver))
    }

    /// Prints the rates of each interval.
    fn print(
        &self,
        read: &mut dyn FnMut() -> Sample,
        events: &mut Events,
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let count = if self.once { Some(1) } else { self.count };
        let mut before = read();
        let mut printed = 0;
        while count.is_none_or(|count| printed < count) {
            let deadline = Instant::now() + self.interval;
            if !wait_without_keys(events, deadline)? {
                break;
            }
            let now = read();
            let mut usage = NodeUsage::since(Some(&before), &now);
            self.sort.sort(&mut usage);
            if self.json {
                print_json(&usage, out)?
            } else {
                print_tables(&usage, out)?
            }
            out.flush()?;
            (before, printed) = (now, printed + 1);
        }
        Ok(())
    }

    /// Shows the rates of each interval until a key or a signal ends that.
    fn show(
        &self,
        screen: &Screen,
        read: &mut dyn FnMut() -> Sample,
        events: &mut Events,
    ) -> Result<(), CommandError> {
        let mut sort = self.sort;
        let mut before = read();
        let mut usage = NodeUsage::since(None, &before);
        let mut deadline = Instant::now() + self.interval;
        loop {
            sort.sort(&mut usage);
            screen.show(&self.frame(&usage, sort, screen.size().1)?)?;
            match events.next(deadline)? {
                Event::Quit => return Ok(()),
                Event::Key(key) => sort = SortKey::of_key(key).unwrap_or(sort),
                Event::Resized => {}
                Event::Stop => {
                    screen.suspend();
                    raise(Signal::SIGSTOP).map_err(io::Error::from)?;
                    screen.resume()?;
                }
                Event::Tick => {
                    deadline = Instant::now() + self.interval;
                    let now = read();
                    usage = NodeUsage::since(Some(&before), &now);
                    before = now;
                }
            }
        }
    }

    fn frame(&self, usage: &NodeUsage, sort: SortKey, rows: usize) -> Result<Vec<String>, CommandError> {
        let problem = problem_line(usage);
        let room = rows.saturating_sub(FIXED_LINES + usize::from(problem.is_some()));
        let (interval, sort) = (self.interval.as_secs_f64(), sort.name());
        let title = format!("silkrail top  {}  every {interval} s, by {sort}  {KEYS}", time(usage));
        let mut lines = vec![title];
        lines.extend(problem);
        lines.push(String::new());
        lines.extend(tables::lines(usage, shares(room, usage.devices.len(), usage.pods.len()))?);
        Ok(lines)
    }
}

/// Waits until the deadline; `false` if the process is to exit before.
fn wait_without_keys(events: &mut Events, deadline: Instant) -> io::Result<bool> {
    loop {
        match events.next(deadline)? {
            Event::Tick => return Ok(true),
            Event::Quit => return Ok(false),
            Event::Key(_) | Event::Resized | Event::Stop => {}
        }
    }
}

/// Divides the rows of the screen among devices and pods: each gets what the other leaves, at least half.
fn shares(room: usize, devices: usize, pods: usize) -> [usize; 2] {
    let devices = devices.min(room.saturating_sub(pods).max(room / 2));
    [devices, room - devices.min(room)]
}

fn problem_line(usage: &NodeUsage) -> Option<String> {
    let first = usage.problems.first()?;
    let more = match usage.problems.len() - 1 {
        0 => String::new(),
        more => format!(" ({more} more)"),
    };
    Some(plain(&format!("not read{more}: {first}")))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time after 1970")]
fn time(usage: &NodeUsage) -> String {
    utc::rfc3339(usage.time as u64)
}

fn print_tables(usage: &NodeUsage, out: &mut dyn Write) -> Result<(), CommandError> {
    writeln!(out, "{}  {:.1} s", time(usage), usage.interval)?;
    if let Some(problem) = problem_line(usage) {
        writeln!(out, "{problem}")?;
    }
    for line in tables::lines(usage, [usize::MAX; 2])? {
        writeln!(out, "{line}")?;
    }
    Ok(writeln!(out)?)
}

/// Prints a line. Only strings can contain control characters, in which JSON allows them as escapes.
fn print_json(usage: &NodeUsage, out: &mut dyn Write) -> Result<(), CommandError> {
    let mut line = String::new();
    for c in serde_json::to_string(usage)?.chars() {
        match u32::from(c) {
            code @ 0x7f..=0xffff if identifiers::is_unprintable(c) => {
                line.push_str(&format!("\\u{code:04x}"))
            }
            _ => line.push(c),
        }
    }
    Ok(writeln!(out, "{line}")?)
}

#[cfg(test)]
mod tests;
