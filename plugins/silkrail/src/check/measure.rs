//! `silkrail check bw` and `silkrail check lat`.

use std::{
    io::Write,
    path::{Path, PathBuf},
    str::FromStr,
};

use check::{
    DeviceName, PortNumber, PortSelector, QueuePairs, RdmaOperation, Seconds, Size, TestKind, TestSpec,
    client::{Client, TestRequest, resolve},
    exposition,
    protocol::CheckToken,
    result_store::ResultStore,
    test_result::TestResult,
    verdict::{THRESHOLD_PERCENT, Threshold},
};
use cpufreq::{GovernorGuard, GovernorOutcome, Governors, PERFORMANCE};

use super::{exit_status::EXIT_STATUS, local_context::local_context, print, traffic::TrafficArgs};
use crate::{
    exit::{CommandError, CommandExit},
    json,
};

/// Measure the bandwidth to a node where `silkrail check serve` runs
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{BW_EXAMPLES}\n\n{EXIT_STATUS}"))]
pub(crate) struct BandwidthArgs {
    #[command(flatten)]
    common: MeasureArgs,
    /// The message size in bytes; suffixes K and M
    #[arg(long, default_value = "64K", value_name = "BYTES")]
    size: Size,
    /// The number of queue pairs
    #[arg(long, default_value = "8", value_name = "N")]
    qps: QueuePairs,
    /// The duration of the test in seconds
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    duration: Seconds,
    /// Test all sizes from FIRST to LAST, doubling, like 2..8M
    #[arg(long, value_name = "FIRST..LAST", conflicts_with = "size")]
    sweep: Option<Sweep>,
    /// Transfer data in both directions at the same time; the bandwidth is the sum of both
    #[arg(long)]
    bidirectional: bool,
    /// Minimum bandwidth in percent of the slower port's speed, or of twice that with --bidirectional
    #[arg(long, default_value_t = THRESHOLD_PERCENT, value_parser = positive, value_name = "PERCENT")]
    threshold: f64,
    /// Minimum bandwidth in Gb/s
    #[arg(long, value_parser = positive, value_name = "GBPS", conflicts_with = "threshold")]
    min_gbps: Option<f64>,
}

/// Measure the latency to a node where `silkrail check serve` runs
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{LAT_EXAMPLES}\n\n{EXIT_STATUS}"))]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    common: MeasureArgs,
    /// The message size in bytes; suffixes K and M
    #[arg(long, default_value = "8", value_name = "BYTES")]
    size: Size,
    /// The duration of the test in seconds
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = seconds)]
    duration: Seconds,
    /// Test all sizes from FIRST to LAST, doubling, like 2..8M
    #[arg(long, value_name = "FIRST..LAST", conflicts_with = "size")]
    sweep: Option<Sweep>,
    /// Maximum average of the latency in microseconds; without it and --max-p99-us there is no verdict
    #[arg(long, value_parser = positive, value_name = "MICROSECONDS")]
    max_us: Option<f64>,
    /// Maximum 99th percentile of the latency in microseconds
    #[arg(long, value_parser = positive, value_name = "MICROSECONDS")]
    max_p99_us: Option<f64>,
}

#[derive(Debug, clap::Args)]
struct MeasureArgs {
    /// The node to test with
    #[arg(value_name = "HOST[:PORT]")]
    host: String,
    /// The RDMA operation: read, write or send
    #[arg(long, default_value = "write")]
    op: RdmaOperation,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// The RDMA device of this node; default: the device with the best GID for the other node's address
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceName>,
    /// The port of --device
    #[arg(long, value_name = "N")]
    port: Option<PortNumber>,
    /// The index of the GID in the port's table; default: the best RoCE v2 GID, none for InfiniBand
    #[arg(long, value_name = "I")]
    gid_index: Option<u16>,
    /// The RDMA device of the other node
    #[arg(long, value_name = "DEVICE")]
    peer_device: Option<DeviceName>,
    /// The port of --peer-device
    #[arg(long, value_name = "N")]
    peer_port: Option<PortNumber>,
    /// The index of the other node's GID
    #[arg(long, value_name = "I")]
    peer_gid_index: Option<u16>,
    /// The file with the shared secret of all nodes; see `silkrail check serve --help`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Set this CPU frequency governor on this node during the test, and restore it after
    #[arg(long, value_parser = [PERFORMANCE])]
    governor: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Do not store the result
    #[arg(long)]
    no_store: bool,
}

const BW_EXAMPLES: &str = "\
Examples:
  silkrail check bw 10.1.70.2 --token-file /etc/silkrail/check.token
  silkrail check bw 10.1.70.2 --op read --device mlx5_1 --governor performance --threshold 90
  silkrail check bw 10.1.70.2 --bidirectional --traffic-class 104 --gpu 0
  silkrail check bw 10.1.70.2 --sweep 2..8M --duration 2 --json | jq '.[] | [.size, .bandwidth.averageGbps]'

Without --min-gbps the threshold is 80 % of the slower port's speed, for messages of 64 KiB and more.
If a speed is unknown, there is no verdict.";

const LAT_EXAMPLES: &str = "\
Examples:
  silkrail check lat 10.1.70.2 --token-file /etc/silkrail/check.token
  silkrail check lat 10.1.70.2 --op send --max-us 5 --max-p99-us 12 --traffic-class 104

The average of one second determines the number of messages for --duration, because perftest has percentiles only of a number
of messages.";

impl BandwidthArgs {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let limit = match self.min_gbps {
            Some(least) => Threshold { min_gbps: Some(least), ..Threshold::default() },
            None => Threshold { percent: Some(self.threshold), ..Threshold::default() },
        };
        let tests = sizes(self.sweep, self.size).into_iter().map(|size| TestSpec {
            options: self.common.traffic.options(self.bidirectional),
            ..TestSpec::new(TestKind::Bandwidth, self.common.op, size, self.qps, self.duration)
        });
        self.common.run(tests, limit, root, out)
    }
}

impl LatencyArgs {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let limit = Threshold { max_us: self.max_us, max_p99_us: self.max_p99_us, ..Threshold::default() };
        let queue_pairs = QueuePairs::LATENCY_DEFAULT;
        let tests = sizes(self.sweep, self.size).into_iter().map(|size| TestSpec {
            options: self.common.traffic.options(false),
            ..TestSpec::new(TestKind::Latency, self.common.op, size, queue_pairs, self.duration)
        });
        self.common.run(tests, limit, root, out)
    }
}

impl MeasureArgs {
    fn run(
        &self,
        tests: impl Iterator<Item = TestSpec>,
        limit: Threshold,
        root: &Path,
        out: &mut dyn Write,
    ) -> Result<CommandExit, CommandError> {
        let node = local_context(root)?;
        let store = ResultStore::below(root);
        let agent = resolve(&self.host)?;
        let token = self.token_file.as_deref().map(CheckToken::read).transpose()?;
        let governors = Governors::below(root);
        let held = self.hold(&governors)?;
        let mut client = Client::connect(&node, agent, token.as_ref())?;
        let mut records = Vec::new();
        for test in tests {
            progress(&test, &self.host);
            let request = TestRequest { test, wanted: self.wanted(), peer_wanted: self.peer_wanted(), limit };
            let mut record = client.measure(&request)?;
            if !self.no_store {
                save_results(&store, std::slice::from_mut(&mut record))?;
            }
            if !self.json {
                print::record(&record, out)?;
            }
            records.push(record);
        }
        if let Some(held) = held {
            held.restore()?;
        }
        match &records[..] {
            [record] if self.json => json::print(record, out)?,
            records if self.json => json::print(&records, out)?,
            _ => {}
        }
        Ok(verdict(&records))
    }

    fn hold<'a>(&self, governors: &'a Governors) -> Result<Option<GovernorGuard<'a>>, CommandError> {
        if self.governor.is_none() {
            // A killed test can have left the governors changed.
            if let Err(error) = governors.restore_after_kill() {
                eprintln!("silkrail: {error}");
            }
            return Ok(None);
        }
        let held = governors.hold()?;
        if let GovernorOutcome::Without(why) = &held.done {
            eprintln!("silkrail: the CPU frequency governor was not changed: {why}");
        }
        Ok(Some(held))
    }

    fn wanted(&self) -> PortSelector {
        PortSelector { device: self.device.clone(), port: self.port, gid_index: self.gid_index }
    }

    fn peer_wanted(&self) -> PortSelector {
        PortSelector {
            device: self.peer_device.clone(),
            port: self.peer_port,
            gid_index: self.peer_gid_index,
        }
    }
}

/// Stores results and updates the metrics file for Prometheus.
pub(super) fn save_results(store: &ResultStore, records: &mut [TestResult]) -> Result<(), CommandError> {
    store.append_all(records)?;
    store.write(exposition::FILE, &exposition::text(&store.read()?))?;
    Ok(())
}

fn verdict(records: &[TestResult]) -> CommandExit {
    let low = records.iter().any(|record| record.verdict.passed == Some(false));
    if low { CommandExit::Found } else { CommandExit::Done }
}

/// Prints the test that is about to start, since a test can take minutes.
fn progress(test: &TestSpec, host: &str) {
    let TestSpec { kind, operation, size, duration, .. } = test;
    eprintln!("silkrail: {kind} by {operation} to {host}: {size} bytes, {duration} s");
}

/// The first and the last message size of a sweep.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    first: Size,
    last: Size,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").ok_or("expected FIRST..LAST, like 2..8M")?;
        let size = |text: &str| text.parse::<Size>().map_err(|error| error.to_string());
        let sweep = Self { first: size(first)?, last: size(last)? };
        if sweep.first <= sweep.last {
            Ok(sweep)
        } else {
            Err("the first size is larger than the last".into())
        }
    }
}

fn sizes(sweep: Option<Sweep>, size: Size) -> Vec<Size> {
    sweep.map_or_else(|| vec![size], |sweep| Size::sweep(sweep.first, sweep.last))
}

pub(super) fn seconds(text: &str) -> Result<Seconds, String> {
    text.strip_suffix('s').unwrap_or(text).parse().map_err(|error: check::InvalidTestSpec| error.to_string())
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number greater than 0".into())
}

#[cfg(test)]
mod tests {
    use super::{super::history::tests::record, *};

    #[test]
    fn a_sweep_has_a_first_and_a_last_size() {
        let sizes = |text: &str| {
            let sweep: Sweep = text.parse().unwrap();
            Size::sweep(sweep.first, sweep.last).len()
        };
        assert_eq!((sizes("2..8M"), sizes("8..8")), (23, 1));
        for bad in ["", "2", "8..2", "2..", "2..9M", "a..b"] {
            assert!(bad.parse::<Sweep>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn one_result_below_its_threshold_is_a_problem() {
        let unjudged = || {
            let mut record = record(1.0);
            record.verdict.passed = None;
            record
        };
        assert_eq!(verdict(&[record(90.0), record(70.0), record(90.0)]), CommandExit::Found);
        assert_eq!(verdict(&[record(90.0), unjudged()]), CommandExit::Done);
    }

    #[test]
    fn thresholds_are_positive() {
        assert_eq!(positive("0.5"), Ok(0.5));
        for bad in ["0", "-1", "nan", "inf", ""] {
            assert!(positive(bad).is_err(), "{bad:?}");
        }
    }
}
