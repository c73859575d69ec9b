//! `silkrail check probe`: latency and loss between nodes, again and again.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use check::{
    DeviceName, Iterations, QueuePairs, RdmaOperation, Seconds, Size, TestKind, TestSpec,
    node_port::{NodePort, node_ports},
    probe::{self, ProbeOutcome, Prober, ProberOptions, ResolvedHosts},
    protocol::CheckToken,
    result_store::ResultStore,
};
use serde_json::json;

use super::{local_context::local_context, traffic::TrafficArgs};
use crate::{
    exit::{CommandError, CommandExit},
    json,
};

/// Measure latency and loss to a few other nodes on each rail, again and again, at a low rate
///
/// Each node probes others, so that together they probe the fabric. A probe sends messages over a reliable connection
/// through the agent of the other node (`silkrail check serve`), one rail after the other. The results are metrics for the
/// textfile collector of node_exporter: round trips as a histogram, lost messages and failures, by rail and node
/// (silkrail_probe_*).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProbeArgs {
    /// The nodes of the cluster; this one is skipped
    #[arg(value_name = "HOST[:PORT]")]
    hosts: Vec<String>,
    /// A file with the nodes, one in each line
    #[arg(long = "hosts", value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many of them this node probes: each node chooses others
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32))]
    peers: u16,
    /// The interval of the rounds in seconds; in each, every chosen node is probed once on each rail
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(5..=86_400))]
    interval: u64,
    /// The number of messages of a probe
    #[arg(long, default_value = "200", value_name = "N", value_parser = messages)]
    messages: Iterations,
    /// The message size in bytes; suffixes K and M
    #[arg(long, default_value = "8", value_name = "BYTES")]
    size: Size,
    /// The RDMA operation: read, write or send
    #[arg(long, default_value = "send")]
    op: RdmaOperation,
    /// Probe only from these RDMA devices of this node
    #[arg(long, value_delimiter = ',', value_name = "DEVICE,...")]
    rail: Vec<DeviceName>,
    /// Refuse to start if the probes of this node need more packets per second on average
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_rate: u64,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// The file with the shared secret of all nodes; see `silkrail check serve --help`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The metrics file; default: probe.prom beside the results of tests
    #[arg(long, value_name = "FILE", conflicts_with = "once")]
    output: Option<PathBuf>,
    /// Make one round, print its results and exit; write no metrics
    #[arg(long)]
    once: bool,
    /// Print JSON, with --once
    #[arg(long, requires = "once")]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  silkrail check probe --hosts /etc/silkrail/hosts --token-file /etc/silkrail/check.token
  silkrail check probe node-b node-c --once --token-file /etc/silkrail/check.token
  silkrail check probe --hosts hosts --interval 30 --peers 4 --traffic-class 104 --token-file check.token

Messages that are lost are sent again by the card after 67 ms; they are counted, and are in the histogram. A probe of a port
that the agent of the other node has in use is counted as not made. A test that is started on this node while a probe runs may
share its port, and measure a little less.

A host that is listed twice is skipped with a message; so is one that cannot be resolved, until it can.

Exit status:
  0   terminated by a signal; with --once: every probe succeeded
  1   an error; with --once: a probe failed, or a host was skipped
  2   wrong usage, or too many packets per second";

/// The path MTU of an Ethernet link with an MTU of 1500: a larger message has several packets.
const SMALLEST_PATH_MTU: u64 = 1024;

/// How many hosts that still cannot be resolved are tried again before a round.
const FAILURES_IN_A_ROUND: usize = 4;

/// The most messages of a probe: the time of each is kept.
const MAX_MESSAGES: u32 = 10_000;

fn messages(text: &str) -> Result<Iterations, String> {
    let number: Iterations = text.parse().map_err(|error: check::InvalidTestSpec| error.to_string())?;
    if number.get() <= MAX_MESSAGES { Ok(number) } else { Err(format!("expected at most {MAX_MESSAGES}")) }
}

impl ProbeArgs {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let name =
            nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let node = local_context(root)?;
        let own = probe::own_addresses()?;
        let hosts = ResolvedHosts::of(&self.all_hosts()?);
        hosts.skipped.iter().for_each(|why| eprintln!("silkrail: {why}"));
        let peers = probe::peers(&hosts.agents, &own, &name, self.peers.into());
        let later = if self.once { 0 } else { hosts.unresolved.len() };
        let most_peers = (peers.len() + later).min(self.peers.into());
        if most_peers == 0 {
            return Err(CommandError::NoOtherNode);
        }
        let is_probed = |port: &&NodePort| {
            port.unusable.is_none() && (self.rail.is_empty() || self.rail.contains(&port.device))
        };
        let rails = node_ports(&node.sysfs)?.iter().filter(is_probed).count();
        let rate = self.rate(most_peers, rails);
        if !self.once && rate > self.max_rate {
            return Err(CommandError::ProbeRate { rate, most: self.max_rate });
        }
        let options = ProberOptions {
            peers,
            test: self.test(),
            devices: self.rail.clone(),
            token: self.token_file.as_deref().map(CheckToken::read).transpose()?,
        };
        let mut prober = Prober { node: &node, options, record: Default::default() };
        if self.once {
            return self.print_round(&mut prober, hosts.skipped.len(), out);
        }
        eprintln!(
            "silkrail: probing {} on {rails} rails every {} s, {rate} packets per second on average",
            names(&prober.options.peers),
            self.interval,
        );
        let store = ResultStore::below(root);
        let file = self.output.clone().unwrap_or_else(|| store.dir().join(probe::FILE));
        if let Some(dir) = file.parent() {
            statefile::make_dir(dir, 0o755).map_err(check::Error::from)?;
        }
        self.probe_forever(&mut prober, hosts, &name, &file)
    }

    /// Probes until a signal. Nodes that start at the same time begin at different times.
    fn probe_forever(
        &self,
        prober: &mut Prober<'_>,
        mut hosts: ResolvedHosts,
        name: &str,
        file: &Path,
    ) -> Result<CommandExit, CommandError> {
        let interval = Duration::from_secs(self.interval);
        let offset = name.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let mut next = Instant::now() + Duration::from_millis(offset % (self.interval * 1000));
        loop {
            if prober.node.interrupt.wait(next.saturating_duration_since(Instant::now()))? {
                return Ok(CommandExit::Done);
            }
            // A round that took longer than the interval is followed by a pause of its own.
            next = (next + interval).max(Instant::now() + Duration::from_secs(1));
            let known = hosts.skipped.len();
            let has_more = hosts.resolve_again(FAILURES_IN_A_ROUND);
            hosts.skipped[known..].iter().for_each(|why| eprintln!("silkrail: {why}"));
            if has_more {
                let own = probe::own_addresses()?;
                prober.options.peers = probe::peers(&hosts.agents, &own, name, self.peers.into());
                eprintln!("silkrail: more hosts are resolved: probing {}", names(&prober.options.peers));
            }
            let interrupted = prober.round(&mut |outcome| {
                if let Err(why) = &outcome.round_trip {
                    eprintln!("silkrail: {}: {why}", end(outcome));
                }
            })?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            let text = probe::text(&prober.record, name, now);
            statefile::replace(file, 0o644, text.as_bytes()).map_err(check::Error::from)?;
            if interrupted {
                return Ok(CommandExit::Done);
            }
        }
    }

    /// Prints one round. Hosts that were skipped are failures.
    fn print_round(
        &self,
        prober: &mut Prober<'_>,
        skipped: usize,
        out: &mut dyn Write,
    ) -> Result<CommandExit, CommandError> {
        let (mut lines, mut values, mut failed) = (Vec::new(), Vec::new(), skipped > 0);
        prober.round(&mut |outcome| {
            failed |= outcome.round_trip.is_err();
            let (device, peer_device) = outcome.devices.clone().unzip();
            let micro = |seconds: f64| seconds * 1e6;
            lines.push(match &outcome.round_trip {
                Ok((median, longest)) => {
                    format!("{}: {:.2} us, at most {:.2} us", end(outcome), micro(*median), micro(*longest))
                }
                Err(why) => format!("{}: failed: {why}", end(outcome)),
            });
            values.push(json!({
                "peer": outcome.peer,
                "device": device,
                "peerDevice": peer_device,
                "medianUs": outcome.round_trip.as_ref().ok().map(|(median, _)| micro(*median)),
                "maxUs": outcome.round_trip.as_ref().ok().map(|(_, longest)| micro(*longest)),
                "error": outcome.round_trip.as_ref().err(),
            }));
        })?;
        if self.json {
            json::print(&values, out)?;
        } else {
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        Ok(if failed { CommandExit::Failed } else { CommandExit::Done })
    }

    fn all_hosts(&self) -> Result<Vec<String>, CommandError> {
        let mut hosts = self.hosts.clone();
        if let Some(path) = &self.file {
            let text = fs::read_to_string(path)
                .map_err(|source| CommandError::HostsFile { path: path.clone(), source })?;
            let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
            hosts.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
        }
        Ok(hosts)
    }

    fn test(&self) -> TestSpec {
        let (kind, pairs) = (TestKind::Latency, QueuePairs::LATENCY_DEFAULT);
        let test = TestSpec::new(kind, self.op, self.size, pairs, Seconds::SHORTEST);
        TestSpec { messages: Some(self.messages), options: self.traffic.options(false), ..test }
    }

    /// Returns the average number of packets per second that this node causes, rounded up.
    fn rate(&self, peers: usize, rails: usize) -> u64 {
        let packets = u64::from(self.size.get()).div_ceil(SMALLEST_PATH_MTU).max(1);
        let packets = 2 * packets * u64::from(self.messages.get()) * peers as u64 * rails as u64;
        packets.div_ceil(self.interval)
    }
}

/// Returns the names of nodes: `node-b, node-c`.
fn names(peers: &[(String, SocketAddr)]) -> String {
    if peers.is_empty() {
        return "no host yet".to_owned();
    }
    peers.iter().map(|(host, _)| host.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns the two ends of a probe: `mlx5_0 to node-b mlx5_0`.
fn end(outcome: &ProbeOutcome<'_>) -> String {
    match &outcome.devices {
        Some((device, peer_device)) => format!("{device} to {} {peer_device}", outcome.peer),
        None => outcome.peer.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: ProbeArgs,
    }

    fn parse(args: &str) -> Result<ProbeArgs, clap::Error> {
        Cli::try_parse_from(std::iter::once("probe").chain(args.split_whitespace())).map(|cli| cli.args)
    }

    #[test]
    fn the_rate_is_bounded() {
        let args = parse("a b --interval 60 --messages 1000").unwrap();
        assert_eq!(args.rate(8, 8), 2134);
        assert_eq!(args.rate(1, 1), 34);
        let large = parse("a b --interval 60 --messages 1000 --size 64K").unwrap();
        assert_eq!(large.rate(1, 1), 2134, "64 packets of 1024 bytes are a message");
        for bad in ["--messages 10001", "--messages 1", "--interval 1", "--peers 33", "--json"] {
            assert!(parse(&format!("a {bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn hosts_are_arguments_or_lines_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts");
        fs::write(&file, "node-b\n\n# spare\nnode-c:99 # rack 2\n").unwrap();
        let args = parse(&format!("node-a --hosts {}", file.display())).unwrap();
        assert_eq!(args.all_hosts().unwrap(), ["node-a", "node-b", "node-c:99"]);
    }
}
