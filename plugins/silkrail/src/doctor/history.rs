//! `silkrail doctor --history`: when findings came and went, from the record of `silkrail doctor --record`.

use std::{
    io::Write,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use doctor_record::{DoctorRecord, RecordedFinding};
use serde::Serialize;

use crate::{
    exit::{CommandError, CommandExit},
    json, table,
};

/// The history, as `--json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct History {
    /// The end of the last examination, in seconds since 1970.
    time: u64,
    /// The findings, the latest first.
    findings: Vec<PastFinding>,
}

/// A finding that is there, or was.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PastFinding {
    #[serde(flatten)]
    finding: RecordedFinding,
    /// When it ended; absent if it is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
}

const HEAD: [&str; 7] = ["FOUND", "ENDED", "LASTED", "SEVERITY", "ID", "OBJECT", "SUMMARY"];

/// Prints the findings of these kinds; of all kinds if there is none.
pub(super) fn print(
    state_dir: &Path,
    only: &[String],
    as_json: bool,
    out: &mut dyn Write,
) -> Result<CommandExit, CommandError> {
    let record = DoctorRecord::read(state_dir)?
        .ok_or_else(|| CommandError::NoDoctorRecord { path: state_dir.to_owned() })?;
    let history = History::of(record, only);
    if as_json {
        json::print(&history, out)?;
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let rows: Vec<_> = history.findings.iter().map(|finding| finding.row(now)).collect();
        table::print(out, HEAD, &rows)?;
    }
    Ok(CommandExit::Done)
}

impl History {
    fn of(record: DoctorRecord, only: &[String]) -> Self {
        let current = record.findings.into_iter().map(|finding| PastFinding { finding, until: None });
        let ended = record
            .ended
            .into_iter()
            .map(|ended| PastFinding { finding: ended.finding, until: Some(ended.until) });
        let is_wanted = |past: &PastFinding| only.is_empty() || only.contains(&past.finding.id);
        let mut findings: Vec<_> = current.chain(ended).filter(is_wanted).collect();
        findings.sort_by_key(|past| std::cmp::Reverse(past.finding.since));
        Self { time: record.time, findings }
    }
}

impl PastFinding {
    fn row(&self, now: u64) -> [String; 7] {
        let RecordedFinding { id, severity, object, summary, since } = &self.finding;
        let end = self.until.unwrap_or(now);
        [
            utc::rfc3339(*since),
            self.until.map(utc::rfc3339).unwrap_or_default(),
            duration(end.saturating_sub(*since)),
            severity.clone(),
            id.clone(),
            object.clone(),
            summary.clone(),
        ]
    }
}

/// Returns a duration in its largest unit and the next one: `2d3h`, `5m`, `40s`.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m"),
        (0, ..) => format!("{hours}h{minutes}m"),
        _ => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use doctor_record::EndedFinding;

    use super::*;

    fn finding(id: &str, since: u64) -> RecordedFinding {
        RecordedFinding {
            id: id.into(),
            severity: "error".into(),
            object: "eth0".into(),
            summary: "it is down".into(),
            since,
        }
    }

    #[test]
    fn findings_are_listed_with_the_latest_first() {
        let record = DoctorRecord {
            time: 400,
            findings: vec![finding("link-down", 100), finding("mtu-differs", 300)],
            ended: [EndedFinding { finding: finding("link-down", 200), until: 260 }].into(),
            ..DoctorRecord::default()
        };
        let rows = |only: &[String]| {
            let history = History::of(record.clone(), only);
            let rows = history.findings.iter().map(|finding| finding.row(7300));
            rows.map(|row| row[..5].join(" ")).collect::<Vec<_>>()
        };
        let ended = "1970-01-01T00:03:20Z 1970-01-01T00:04:20Z 1m error link-down";
        let expected = [
            "1970-01-01T00:05:00Z  1h56m error mtu-differs",
            ended,
            "1970-01-01T00:01:40Z  2h0m error link-down",
        ];
        assert_eq!(rows(&[]), expected);
        assert_eq!(rows(&["link-down".into()]), expected[1..]);
    }

    #[test]
    fn durations_have_two_units() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (60, "1m"), (3661, "1h1m"), (90_000, "1d1h")] {
            assert_eq!(duration(seconds), text);
        }
    }
}
