//! Human-readable output of results.

use std::io::{self, Write};

use check::{
    TestKind,
    port_counters::is_trouble,
    test_result::{TestEnd, TestResult},
};

/// Prints a result with its verdict, its ends and the counters that indicate problems.
pub(super) fn record(record: &TestResult, out: &mut dyn Write) -> io::Result<()> {
    let test = &record.test;
    let parameters = match test.kind {
        TestKind::Bandwidth => {
            format!("{} bytes, {} queue pairs, {} s", test.size, test.queue_pairs, test.duration)
        }
        TestKind::Latency => format!("{} bytes, {} s", test.size, test.duration),
    };
    writeln!(out, "{} by {}: {}  ({parameters})", test.kind, test.operation, value(record))?;
    writeln!(out, "verdict: {}: {}", verdict(record), record.verdict.why)?;
    end("client", &record.client, out)?;
    end("server", &record.server, out)?;
    if let Some(mismatch) = record.mismatch() {
        writeln!(out, "{mismatch}")?;
    }
    problem_counters(record, out)?;
    if record.id > 0 {
        writeln!(out, "stored as result {}", record.id)?;
    }
    Ok(())
}

/// Returns the average with its unit.
pub(super) fn value(record: &TestResult) -> String {
    match record.test.kind {
        TestKind::Bandwidth => record.value().map_or_else(String::new, |gbps| format!("{gbps:.3} Gb/s")),
        TestKind::Latency => record.value().map_or_else(String::new, |us| format!("{us:.2} us")),
    }
}

/// Returns the verdict as one word.
pub(super) fn verdict(record: &TestResult) -> &'static str {
    match record.verdict.passed {
        Some(true) => "passed",
        Some(false) => "FAILED",
        None => "none",
    }
}

fn end(role: &str, end: &TestEnd, out: &mut dyn Write) -> io::Result<()> {
    let speed = end.speed_mbps.map_or_else(|| "unknown speed".into(), speed);
    let link = end.link.as_ref().map(|link| format!(" on {link}")).unwrap_or_default();
    writeln!(out, "{role}  {}{link}, {speed}", end.name())?;
    if let (Some(index), Some(gid), Some(why)) = (end.gid_index, end.gid, &end.gid_why) {
        writeln!(out, "        GID {index}, {gid}: {why}")?;
    }
    Ok(())
}

/// Formats a speed in Gb/s, without a trailing `.0`.
fn speed(mbps: u64) -> String {
    match (mbps / 1000, mbps % 1000 / 100) {
        (whole, 0) => format!("{whole} Gb/s"),
        (whole, tenths) => format!("{whole}.{tenths} Gb/s"),
    }
}

/// Prints the counters that indicate loss or congestion and so explain a bad result.
fn problem_counters(record: &TestResult, out: &mut dyn Write) -> io::Result<()> {
    let lines = |role, end: &TestEnd| {
        let problems = end.counters.iter().filter(|(name, _)| is_trouble(name.as_str()));
        problems.map(|(name, more)| format!("{role} {name} +{more}")).collect::<Vec<_>>()
    };
    let all = [lines("client", &record.client), lines("server", &record.server)].concat();
    if all.is_empty() {
        return writeln!(out, "no counter indicates loss or congestion");
    }
    writeln!(out, "counters that indicate loss or congestion:")?;
    all.iter().try_for_each(|line| writeln!(out, "        {line}"))
}
