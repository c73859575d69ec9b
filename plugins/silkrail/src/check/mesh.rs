//! `silkrail check mesh`: tests of all pairs of several nodes.

use std::{
    collections::BTreeSet,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use check::{
    DeviceName, QueuePairs, RdmaOperation, Seconds, Size, TestKind, TestSpec,
    client::resolve,
    mesh::{
        self, Announcement, DEFAULT_ROUNDS, MeshPlan, MeshResult, NodePair, OUTLIER_PERCENT, RoundReport,
        Survey,
    },
    protocol::{CheckToken, MAX_RAILS},
    result_store::ResultStore,
    test_result::TestResult,
    verdict::Threshold,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::{
    duration_text,
    local_context::local_context,
    measure, mesh_print,
    terminal::{self, ProgressLine},
    traffic::TrafficArgs,
};
use crate::{
    exit::{CommandError, CommandExit},
    json,
};

/// Test nodes where `silkrail check serve` runs with each other: all pairs, or a sample of many
///
/// The nodes test each other, in rounds in which each node takes part at most once. The command only instructs them and can
/// run on any machine that reaches them. The other nodes must be able to reach each HOST by the same address.
///
/// With --rails, two nodes test all their rails at the same time, which finds the rail that is slow only when all run. Ports
/// in the same subnet are one rail; ports whose subnets no other node has are matched by the order of their PCI addresses.
#[derive(Debug, clap::Args)]
#[command(after_help = examples())]
pub(crate) struct MeshArgs {
    /// The nodes
    #[arg(required = true, num_args = 2.., value_name = "HOST[:PORT]")]
    hosts: Vec<String>,
    /// Test all rails of two nodes at the same time
    #[arg(long)]
    rails: bool,
    /// Test only the rails of these RDMA devices, at the same time; implies --rails
    #[arg(long, value_delimiter = ',', value_name = "DEVICE,...")]
    rail: Vec<DeviceName>,
    /// The number of rounds, and so of other nodes that each node meets; default: all for up to 16 nodes, otherwise 16
    #[arg(long, value_parser = at_least_one, value_name = "N")]
    rounds: Option<usize>,
    /// Select other pairs and another order of them
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// How long a test may take besides its measurement, in seconds; a node that hangs holds the others up for that long
    #[arg(long, default_value = "20", value_parser = measure::seconds, value_name = "SECONDS")]
    test_timeout: Seconds,
    /// How long all rounds may take, in seconds; default: what they take if every test takes as long as it may
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=604_800), value_name = "SECONDS")]
    time_limit: Option<u64>,
    /// The RDMA operation: read, write or send
    #[arg(long, default_value = "write")]
    op: RdmaOperation,
    /// Measure latency instead of bandwidth
    #[arg(long)]
    latency: bool,
    /// Transfer data in both directions at the same time; the bandwidth is the sum of both
    #[arg(long, conflicts_with = "latency")]
    bidirectional: bool,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// The message size in bytes; suffixes K and M; default: 64K, for latency 8
    #[arg(long, value_name = "BYTES")]
    size: Option<Size>,
    /// The number of queue pairs
    #[arg(long, default_value = "8", value_name = "N", conflicts_with = "latency")]
    qps: QueuePairs,
    /// The duration of each test in seconds
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = measure::seconds)]
    duration: Seconds,
    /// Minimum bandwidth in percent of the slower port's speed; default: 80
    #[arg(long, value_parser = measure::positive, value_name = "PERCENT", conflicts_with = "latency")]
    threshold: Option<f64>,
    /// Minimum bandwidth in Gb/s
    #[arg(long, value_parser = measure::positive, value_name = "GBPS", conflicts_with_all = ["latency", "threshold"])]
    min_gbps: Option<f64>,
    /// Maximum average of the latency in microseconds
    #[arg(long, value_parser = measure::positive, value_name = "MICROSECONDS", requires = "latency")]
    max_us: Option<f64>,
    /// Maximum 99th percentile of the latency in microseconds
    #[arg(long, value_parser = measure::positive, value_name = "MICROSECONDS", requires = "latency")]
    max_p99_us: Option<f64>,
    /// The file with the shared secret of all nodes; see `silkrail check serve --help`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Do not store the results
    #[arg(long)]
    no_store: bool,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct MeshReport<'a> {
    plan: PlanReport,
    #[serde(flatten)]
    mesh: &'a MeshResult,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanReport {
    #[serde(flatten)]
    announced: Announcement,
    seed: u64,
    took_seconds: u64,
}

/// Maximum number of results of a mesh in the history, which has room for 5000. Of a larger mesh only those that show a problem
/// are stored.
const MAX_STORED: usize = 500;

/// Maximum number of nodes that are named before the start because they do not take part.
const MAX_ANNOUNCED_FAILURES: usize = 10;

fn examples() -> String {
    format!(
        "\
Examples:
  silkrail check mesh 10.1.70.1 10.1.70.2 10.1.70.3 10.1.70.4 --token-file /etc/silkrail/check.token
  silkrail check mesh $(cat hosts) --op read --json >mesh.json
  silkrail check mesh $(cat hosts) --rails --rounds 4 --duration 2 --token-file /etc/silkrail/check.token
  silkrail check mesh $(cat hosts) --rail mlx5_0,mlx5_1 --json | jq '.slowPorts, .slowRails, .slowNodes'

More than {DEFAULT_ROUNDS} nodes are tested in {DEFAULT_ROUNDS} rounds. The pairs and their order depend on the nodes, --rounds and --seed only.
A pair is an outlier if it is more than {OUTLIER_PERCENT} % worse than the median of its rail, or than that of all rails. A node, a port of a
node, or a rail is slow if most of its pairs are outliers. Up to {MAX_STORED} results are stored; of larger tests, only those that are
outliers or below the threshold.

Exit status:
  0   all pairs have a result, none is below the threshold or an outlier
  1   an error: nodes, ports or pairs without a result are listed, the other results are stored
  2   wrong usage
  6   a pair is below the threshold or an outlier"
    )
}

impl MeshArgs {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let node = local_context(root)?;
        let store = ResultStore::below(root);
        let plan = self.plan()?;
        raise_open_files();
        let survey = mesh::survey(&plan, &node)?;
        let announced = Announcement::new(&plan, &survey);
        self.announce(&announced, &plan, &survey);
        if announced.tests == 0 {
            return Err(CommandError::NothingToTest);
        }
        if let Some(rails) = announced.rails.filter(|rails| *rails > MAX_RAILS) {
            return Err(CommandError::TooManyRails(rails));
        }
        let stores_all = !self.no_store && announced.tests <= MAX_STORED;
        let mut store_error = None;
        let (progress, began) = (ProgressLine::new(), Instant::now());
        let mut mesh = mesh::run(&plan, &survey, &node, |round| {
            if stores_all {
                store_error = save(&store, round.pairs.iter_mut()).err().or(store_error.take());
            }
            progress.show(&progress_text(&round), round.round == round.rounds);
        });
        if !stores_all && !self.no_store {
            store_error = save(&store, worth_storing(&mut mesh)).err();
        }
        if self.json {
            let plan = PlanReport { announced, seed: self.seed, took_seconds: began.elapsed().as_secs() };
            json::print(&MeshReport { plan, mesh: &mesh }, out)?;
        } else {
            mesh_print::mesh(&mesh, terminal::columns(), out)?;
        }
        match store_error {
            Some(failure) => Err(failure),
            None if mesh.is_incomplete() => Ok(CommandExit::Failed),
            None if mesh.is_wrong() => Ok(CommandExit::Found),
            None => Ok(CommandExit::Done),
        }
    }

    fn plan(&self) -> Result<MeshPlan, CommandError> {
        let agents = agents(&self.hosts)?;
        let kind = if self.latency { TestKind::Latency } else { TestKind::Bandwidth };
        let size = self.size.unwrap_or(if self.latency { Size::LATENCY_SIZE_DEFAULT } else { Size::DEFAULT });
        let queue_pairs = if self.latency { QueuePairs::LATENCY_DEFAULT } else { self.qps };
        let seconds = |seconds: Seconds| Duration::from_secs(seconds.get().into());
        Ok(MeshPlan {
            agents,
            test: TestSpec {
                options: self.traffic.options(self.bidirectional),
                ..TestSpec::new(kind, self.op, size, queue_pairs, self.duration)
            },
            limit: Threshold {
                percent: self.threshold,
                min_gbps: self.min_gbps,
                max_us: self.max_us,
                max_p99_us: self.max_p99_us,
            },
            token: self.token_file.as_deref().map(CheckToken::read).transpose()?,
            rails: (self.rails || !self.rail.is_empty()).then(|| self.rail.clone()),
            rounds: self.rounds,
            seed: self.seed,
            test_slack: seconds(self.test_timeout),
            time_limit: self.time_limit.map(Duration::from_secs),
        })
    }

    /// Prints what is going to be done, before it starts.
    fn announce(&self, announced: &Announcement, plan: &MeshPlan, survey: &Survey) {
        for failed in survey.failed().iter().take(MAX_ANNOUNCED_FAILURES) {
            eprintln!("silkrail: {} is left out: {}", plan.agents[failed.node].0, failed.error);
        }
        let failed = survey.failed().len();
        if failed > MAX_ANNOUNCED_FAILURES {
            eprintln!("silkrail: {} more nodes are left out", failed - MAX_ANNOUNCED_FAILURES);
        }
        let rails = announced.rails.map(|rails| format!(", {}", counted(rails, "rail"))).unwrap_or_default();
        let pairs = if announced.all_pairs {
            "all pairs".to_owned()
        } else {
            format!("a sample of the pairs: --rounds, --seed {}", self.seed)
        };
        eprintln!(
            "silkrail: {}{rails}, {} ({pairs}), {} of {} s",
            counted(announced.nodes, "node"),
            counted(announced.rounds, "round"),
            counted(announced.tests, "test"),
            self.duration
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        eprintln!(
            "silkrail: expected duration {}; ends after {} at the latest, at {}",
            duration_text::text(announced.expected),
            duration_text::text(announced.longest),
            utc::rfc3339((now + announced.longest).as_secs())
        );
    }
}

/// Raises the soft limit of open files to the hard one: each pair of a round has a connection.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // If it fails, a pair without a connection has an error of its own.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns a number with its noun.
fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn progress_text(round: &RoundReport<'_>) -> String {
    let failed = round.pairs.iter().filter(|pair| pair.record.is_none()).count();
    let failed = if failed > 0 { format!(", {failed} without a result") } else { String::new() };
    format!(
        "round {}/{}: {}{failed}; {} left",
        round.round,
        round.rounds,
        counted(round.pairs.len(), "test"),
        duration_text::text(round.left)
    )
}

/// Stores the results of these pairs, which get their IDs.
fn save<'a>(store: &ResultStore, pairs: impl Iterator<Item = &'a mut NodePair>) -> Result<(), CommandError> {
    let mut places: Vec<&mut TestResult> = pairs.filter_map(|pair| pair.record.as_mut()).collect();
    let mut records: Vec<TestResult> = places.iter().map(|record| (**record).clone()).collect();
    if records.is_empty() {
        return Ok(());
    }
    measure::save_results(store, &mut records)?;
    for (place, record) in places.iter_mut().zip(records) {
        place.id = record.id;
    }
    Ok(())
}

/// Returns the outliers and the results below their threshold, at most [`MAX_STORED`].
fn worth_storing(mesh: &mut MeshResult) -> impl Iterator<Item = &mut NodePair> {
    let outliers: BTreeSet<_> =
        mesh.outliers.iter().map(|outlier| (outlier.client, outlier.server, outlier.rail)).collect();
    let is_worth = move |pair: &&mut NodePair| {
        let is_below = pair.record.as_ref().is_some_and(|record| record.verdict.passed == Some(false));
        is_below || outliers.contains(&(pair.client, pair.server, pair.rail))
    };
    mesh.pairs.iter_mut().filter(is_worth).take(MAX_STORED)
}

fn agents(hosts: &[String]) -> Result<Vec<(String, SocketAddr)>, CommandError> {
    let mut agents = Vec::new();
    let mut seen = BTreeSet::new();
    for host in hosts {
        let address = resolve(host)?;
        if !seen.insert(address) {
            return Err(CommandError::NodeTwice(host.clone()));
        }
        // In /etc/hosts of Debian, the node's own name has the address 127.0.1.1.
        if address.ip().is_loopback() {
            return Err(CommandError::Loopback(host.clone(), address.ip()));
        }
        agents.push((host.clone(), address));
    }
    Ok(agents)
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number of at least 1".into())
}

#[cfg(test)]
mod tests {
    use super::{super::history::tests::record, *};

    #[test]
    fn outliers_and_results_below_the_threshold_are_worth_storing() {
        let pair = |(client, (gbps, passed)): (usize, (f64, Option<bool>))| {
            let mut record = record(gbps);
            record.verdict.passed = passed;
            NodePair { client, server: 9, rail: None, record: Some(record), error: None, skipped: false }
        };
        let results =
            [(100.0, Some(true)), (100.0, None), (99.0, Some(false)), (40.0, None), (100.0, Some(true))];
        let mut pairs: Vec<_> = results.into_iter().enumerate().map(pair).collect();
        pairs.push(NodePair { record: None, error: Some("it hangs".into()), ..pairs[0].clone() });
        let nodes = (0..10).map(|number| number.to_string()).collect();
        let mut mesh = MeshResult::new(nodes, Vec::new(), pairs, TestKind::Bandwidth);
        let stored: Vec<_> = worth_storing(&mut mesh).map(|pair| pair.client).collect();
        assert_eq!(stored, [2, 3]);
    }

    #[test]
    fn a_node_of_a_mesh_is_named_once_and_has_no_loopback_address() {
        let of = |hosts: &[&str]| agents(&hosts.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["192.0.2.1", "192.0.2.2"]).unwrap().len(), 2);
        assert!(matches!(of(&["192.0.2.1", "192.0.2.1:18514"]), Err(CommandError::NodeTwice(_))));
        for own in ["127.0.0.1", "127.0.1.1:99"] {
            assert!(matches!(of(&["192.0.2.1", own]), Err(CommandError::Loopback(..))), "{own}");
        }
    }
}
