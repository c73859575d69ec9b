//! `silkrail check history` and `silkrail check compare`.

use std::{io::Write, path::Path};

use check::{
    comparison::{THRESHOLD_PERCENT, compare, last_two},
    result_store::ResultStore,
    test_result::TestResult,
};

use super::print;
use crate::{
    exit::{CommandError, CommandExit},
    json, table,
};

/// Show the results stored on this node, the latest last
#[derive(Debug, clap::Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub(crate) struct HistoryArgs {
    /// Show only the latest N results
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Compare two results of the same test and report a regression
#[derive(Debug, clap::Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArgs {
    /// The ID of the earlier result
    #[arg(required_unless_present = "last", requires = "after", conflicts_with = "last")]
    before: Option<u64>,
    /// The ID of the later result
    after: Option<u64>,
    /// Compare the last result with the previous one of the same test
    #[arg(long)]
    last: bool,
    /// A value that is worse by more percent is a regression
    #[arg(long, default_value_t = THRESHOLD_PERCENT, value_name = "PERCENT")]
    threshold: f64,
    /// Compare results of different tests of the same kind too
    #[arg(long)]
    any: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  silkrail check history --last 20
  silkrail check history --json | jq -r '.[] | select(.verdict.passed == false) | .id'

The results are in /var/lib/silkrail/check/history.jsonl. The last result of each test is in check_last.prom, for Prometheus.

Exit status:
  0   done
  1   an error
  2   wrong usage";

const COMPARE_EXAMPLES: &str = "\
Examples:
  silkrail check compare 12 15
  silkrail check compare --last --threshold 5

Exit status:
  0   no regression
  1   an error: no such results, or results of different tests
  2   wrong usage
  6   worse by more than the threshold";

const HEAD: [&str; 10] =
    ["ID", "TIME", "KIND", "OP", "SIZE", "CLIENT", "SERVER", "AVERAGE", "P99", "VERDICT"];

impl HistoryArgs {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let records = ResultStore::below(root).read()?;
        let skipped = self.last.map_or(0, |last| records.len().saturating_sub(last));
        let records = &records[skipped..];
        if self.json {
            json::print(&records, out)?;
        } else {
            table::print(out, HEAD, &records.iter().map(cells).collect::<Vec<_>>())?;
        }
        Ok(CommandExit::Done)
    }
}

impl CompareArgs {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let store = ResultStore::below(root);
        let (before, after) = match (self.before, self.after) {
            (Some(before), Some(after)) => (store.find(before)?, store.find(after)?),
            _ => {
                let records = store.read()?;
                let (before, after) = last_two(&records)?;
                (before.clone(), after.clone())
            }
        };
        let found = compare(&before, &after, self.threshold, self.any)?;
        if self.json {
            json::print(&found, out)?;
        } else {
            let worse = if found.regression { "REGRESSION" } else { "no regression" };
            writeln!(
                out,
                "result {}: {}, result {}: {}: {:+.1} %: {worse} (threshold {} %)",
                before.id,
                print::value(&before),
                after.id,
                print::value(&after),
                found.change_percent,
                self.threshold
            )?;
        }
        Ok(if found.regression { CommandExit::Found } else { CommandExit::Done })
    }
}

fn cells(record: &TestResult) -> [String; HEAD.len()] {
    [
        record.id.to_string(),
        utc::rfc3339(record.time),
        record.test.kind.to_string(),
        record.test.operation.to_string(),
        record.test.size.to_string(),
        record.client.name(),
        record.server.name(),
        print::value(record),
        print::p99(record),
        print::verdict(record).to_owned(),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use check::{
        QueuePairs, RdmaOperation, Seconds, Size, TestKind, TestSpec,
        perftest::{Bandwidth, Measurement},
        test_result::TestEnd,
        verdict::Verdict,
    };

    use super::*;

    /// The result of a test with a bandwidth.
    pub(in crate::check) fn record(gbps: f64) -> TestResult {
        TestResult {
            id: 0,
            time: 1_795_200_000,
            test: TestSpec::new(
                TestKind::Bandwidth,
                RdmaOperation::Write,
                Size::DEFAULT,
                QueuePairs::LATENCY_DEFAULT,
                Seconds::SHORTEST,
            ),
            measurement: Measurement {
                bandwidth: Some(Bandwidth { average_gbps: gbps, peak_gbps: None, message_rate_mpps: None }),
                ..Measurement::default()
            },
            verdict: Verdict {
                passed: Some(gbps >= 80.0),
                expected: None,
                expected_p99: None,
                why: "".into(),
            },
            client: TestEnd::default(),
            server: TestEnd::default(),
        }
    }

    /// A node with results of these bandwidths.
    fn node(results: &[f64]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let mut records: Vec<_> = results.iter().copied().map(record).collect();
        ResultStore::below(root.path()).append_all(&mut records).unwrap();
        root
    }

    #[test]
    fn the_latest_results_are_shown_last() {
        let node = node(&[90.0, 70.0, 95.0]);
        let shown = |last| {
            let mut out = Vec::new();
            let args = HistoryArgs { last, json: false };
            assert_eq!(args.run(node.path(), &mut out).unwrap(), CommandExit::Done);
            let text = String::from_utf8(out).unwrap();
            let ends = |line: &str| {
                (line.split(' ').next().unwrap().to_owned(), line.rsplit(' ').next().unwrap().to_owned())
            };
            text.lines().skip(1).map(ends).map(|(id, verdict)| format!("{id} {verdict}")).collect::<Vec<_>>()
        };
        assert_eq!(shown(None), ["1 passed", "2 FAILED", "3 passed"]);
        assert_eq!(shown(Some(2)), ["2 FAILED", "3 passed"]);
        assert_eq!((shown(Some(9)).len(), shown(Some(0)).len()), (3, 0));
    }

    #[test]
    fn a_result_that_is_worse_by_more_than_the_threshold_is_a_regression() {
        let node = node(&[100.0, 90.0, 80.0]);
        let compare = |before: Option<u64>, after, threshold| {
            let args =
                CompareArgs { before, after, last: before.is_none(), threshold, any: false, json: false };
            let mut out = Vec::new();
            let exit = args.run(node.path(), &mut out).unwrap();
            (exit, String::from_utf8(out).unwrap())
        };
        let (exit, text) = compare(Some(1), Some(2), 5.0);
        assert!(exit == CommandExit::Found && text.contains("-10.0 %: REGRESSION"), "{text}");
        let (exit, text) = compare(Some(2), Some(1), 5.0);
        assert!(exit == CommandExit::Done && text.contains("+11.1 %: no regression"), "{text}");
        assert_eq!(compare(Some(1), Some(2), 15.0).0, CommandExit::Done);
        let (_, last) = compare(None, None, 15.0);
        assert!(last.starts_with("result 2: ") && last.contains(", result 3: "), "{last}");
    }
}
