//! The history as a self-contained HTML page with a chart for each test.

use std::{collections::BTreeMap, fmt::Write};

use utc::rfc3339;

use crate::{TestKind, test_result::TestResult};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 160.0;
const MARGIN: f64 = 48.0;

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222;background:#fff}\
    h2{font-size:1em;margin:2em 0 0}svg{width:100%;height:auto}\
    table{border-collapse:collapse;width:100%}td,th{padding:.2em .6em;text-align:left;border-bottom:1px solid #ddd}\
    td.n{text-align:right;font-variant-numeric:tabular-nums}.bad{color:#b00020}\
    @media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}td,th{border-color:#444}.bad{color:#ff6b81}}";

/// Returns the HTML page of these results, which must be ordered from the oldest to the latest.
pub fn page(records: &[TestResult]) -> String {
    let mut series: BTreeMap<_, Vec<&TestResult>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.value().is_some()) {
        series.entry(record.series()).or_default().push(record);
    }
    let charts: String = series.values().map(|records| chart(records)).collect();
    let rows: String = records.iter().rev().map(row).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
        <meta name=\"viewport\" content=\"width=device-width\"><title>silkrail check</title>\
        <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
        <style>{STYLE}</style></head>\n<body><h1>RDMA tests</h1>\n<p>Results: {}, tests: {}</p>\n{charts}\
        <h2>Results, latest first</h2>\n<table><thead><tr><th>ID</th><th>Time</th><th>Test</th><th>Client</th>\
        <th>Server</th><th>Average</th><th>Verdict</th></tr></thead>\n<tbody>\n{rows}</tbody></table></body></html>\n",
        records.len(),
        series.len()
    )
}

/// Returns an SVG chart of the results of one test over time.
fn chart(records: &[&TestResult]) -> String {
    let Some(first) = records.first() else { return String::new() };
    let values = records.iter().filter_map(|record| record.value());
    let expected = records.iter().filter_map(|record| record.verdict.expected);
    let top = values.chain(expected).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.1;
    let times = [first.time, records.last().map_or(first.time, |last| last.time)];
    let points: Vec<(f64, f64, &TestResult)> = records
        .iter()
        .filter_map(|record| Some((x(record.time, times), y(record.value()?, top), *record)))
        .collect();
    let mut svg = String::new();
    let (bottom, right) = (HEIGHT - MARGIN / 2.0, WIDTH - MARGIN / 4.0);
    for share in [0.0, 0.5, 1.0] {
        let (at, label) = (y(top * share, top), top * share);
        add(
            &mut svg,
            format_args!(
                "<line x1=\"{MARGIN}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"currentColor\" opacity=\".15\"/>"
            ),
        );
        add(
            &mut svg,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"10\" fill=\"currentColor\">{}</text>",
                MARGIN - 4.0,
                at + 3.0,
                short(label)
            ),
        );
    }
    let line: Vec<String> = points.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
    add(
        &mut svg,
        format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#2d7dd2\" stroke-width=\"1.5\"/>",
            line.join(" ")
        ),
    );
    for (x, y, record) in &points {
        let colour = if record.verdict.passed == Some(false) { "#d7263d" } else { "#2d7dd2" };
        add(
            &mut svg,
            format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{}</title></circle>",
                escape(&tip(record))
            ),
        );
    }
    for (at, anchor, time) in [(MARGIN, "start", times[0]), (right, "end", times[1])] {
        add(
            &mut svg,
            format_args!(
                "<text x=\"{at}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"10\" fill=\"currentColor\">{}</text>",
                bottom + 14.0,
                rfc3339(time)
            ),
        );
    }
    let head = format!("{}: {} to {}", test(first), first.client.name(), first.server.name());
    format!("<h2>{}</h2>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">{svg}</svg>\n", escape(&head))
}

fn row(record: &TestResult) -> String {
    let (class, verdict) = match record.verdict.passed {
        Some(true) => ("", "passed"),
        Some(false) => (" class=\"bad\"", "failed"),
        None => ("", "none"),
    };
    let cell = |text: &str| format!("<td>{}</td>", escape(text));
    format!(
        "<tr{class}><td class=\"n\">{}</td>{}{}{}{}<td class=\"n\">{}</td><td title=\"{}\">{verdict}</td></tr>\n",
        record.id,
        cell(&rfc3339(record.time)),
        cell(&test(record)),
        cell(&record.client.name()),
        cell(&record.server.name()),
        escape(&value(record)),
        escape(record.verdict.why.as_str()),
    )
}

fn test(record: &TestResult) -> String {
    let queue_pairs = match record.test.kind {
        TestKind::Bandwidth => format!(", {} queue pairs", record.test.queue_pairs),
        TestKind::Latency => String::new(),
    };
    let options: Vec<String> = record
        .test
        .options
        .names()
        .iter()
        .map(|(name, value)| format!(", {} {value}", name.replace('_', " ")))
        .collect();
    format!(
        "{} by {}, {} bytes{queue_pairs}{}",
        record.test.kind,
        record.test.operation,
        record.test.size,
        options.concat()
    )
}

fn tip(record: &TestResult) -> String {
    format!("{}: {} ({})", rfc3339(record.time), value(record), record.verdict.why)
}

fn value(record: &TestResult) -> String {
    let unit = match record.test.kind {
        TestKind::Bandwidth => "Gb/s",
        TestKind::Latency => "us",
    };
    let p99 = record.measurement.latency.and_then(|latency| latency.p99_us);
    let p99 = p99.map(|p99| format!(" (p99 {} {unit})", short(p99))).unwrap_or_default();
    record.value().map_or_else(String::new, |value| format!("{} {unit}{p99}", short(value)))
}

fn short(value: f64) -> String {
    if value < 10.0 { format!("{value:.3}") } else { format!("{value:.1}") }
}

#[expect(clippy::cast_precision_loss, reason = "seconds on a chart of 700 points")]
fn x(time: u64, [first, last]: [u64; 2]) -> f64 {
    let span = last.saturating_sub(first).max(1) as f64;
    MARGIN + time.saturating_sub(first) as f64 / span * (WIDTH - MARGIN * 1.25)
}

fn y(value: f64, top: f64) -> f64 {
    let bottom = HEIGHT - MARGIN / 2.0;
    bottom - value / top * (bottom - 8.0)
}

fn add(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = svg.write_fmt(text);
}

/// Escapes text for HTML elements and quoted attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_result::tests::record;

    #[test]
    fn names_cannot_become_markup() {
        let mut evil = record(95.0);
        evil.server.node = "<script>alert('x')</script>\"&".into();
        evil.verdict.why = "\"><script>".into();
        let page = page(&[evil]);
        assert!(!page.contains("<script>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"), "{page}");
    }

    #[test]
    fn the_page_loads_no_external_resources() {
        let page = page(&[record(95.0)]);
        for outside in ["http:", "https:", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn each_test_has_a_chart_and_failed_results_are_marked() {
        let mut later = record(40.0);
        later.time += 3600;
        let mut other = record(90.0);
        other.server.node = "node-c".into();
        let page = page(&[record(95.0), later, other]);
        assert_eq!(page.matches("<svg").count(), 2);
        assert_eq!(page.matches("<circle").count(), 3);
        assert_eq!(page.matches("#d7263d").count(), 1);
        assert!(page.contains("Results: 3, tests: 2"), "{page}");
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
        assert_eq!(
            (page.matches("<td title=\"80 %\">passed").count(), page.matches("failed</td>").count()),
            (2, 1)
        );
    }

    #[test]
    fn results_are_listed_the_latest_first_and_those_without_a_value_have_no_point() {
        let mut records = [record(95.0), record(90.0), record(85.0)];
        for (record, id) in records.iter_mut().zip(1..) {
            (record.id, record.time) = (id, record.time + id);
        }
        records[1].measurement.bandwidth = None;
        records[2].verdict.passed = None;
        let page = page(&records);
        let places = [3, 2, 1].map(|id| page.find(&format!("<td class=\"n\">{id}</td>")).unwrap());
        assert!(places.is_sorted(), "{page}");
        assert_eq!((page.matches("<circle").count(), page.matches("#d7263d").count()), (2, 0));
        assert!(page.contains("Results: 3, tests: 1") && page.contains(">none</td>"), "{page}");
        let times =
            [rfc3339(records[0].time), rfc3339(records[2].time)].map(|time| format!(">{time}</text>"));
        assert!(times.iter().all(|time| page.contains(time)), "the first and the last: {page}");
    }

    #[test]
    fn an_empty_history_is_an_empty_page() {
        assert!(page(&[]).contains("Results: 0, tests: 0"));
    }
}
