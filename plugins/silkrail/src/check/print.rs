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
    let options: Vec<String> = test
        .options
        .names()
        .iter()
        .map(|(name, value)| format!(", {} {value}", name.replace('_', " ")))
        .collect();
    let (value, options) = (value(record), options.concat().replace("bidirectional true", "both directions"));
    writeln!(
        out,
        "{} by {}: {value}{}  ({parameters}{options})",
        test.kind,
        test.operation,
        percentiles(record)
    )?;
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

/// Returns the percentiles of the latency, if they were measured.
fn percentiles(record: &TestResult) -> String {
    let latency = record.measurement.latency.unwrap_or_default();
    let part = |name, value: Option<f64>| value.map(|us| format!(", {name} {us:.2} us")).unwrap_or_default();
    part("p99", latency.p99_us) + &part("p99.9", latency.p999_us)
}

/// Returns the 99th percentile of the latency, or an empty text.
pub(super) fn p99(record: &TestResult) -> String {
    let p99 = record.measurement.latency.and_then(|latency| latency.p99_us);
    p99.map(|us| format!("{us:.2} us")).unwrap_or_default()
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
