//! The report of `--out_json`, including the invalid JSON of perftest in Debian 12.
//!
//! Version 4.5+0.17 omits the quotes and ends every list with a comma. Newer versions write valid JSON, but can write the
//! report more than once. All versions write one field per line, so the parser reads lines.

use super::measurement::{MIB, Measurement, ReportField, UnusableOutput, measurement};
use crate::TestKind;

const NAMES: [(&str, ReportField); 13] = [
    ("MsgSize", ReportField::Size),
    ("n_iterations", ReportField::Iterations),
    ("BW_peak", ReportField::Peak),
    ("BW_average", ReportField::Average),
    ("MsgRate", ReportField::Rate),
    ("t_min", ReportField::Min),
    ("t_max", ReportField::Max),
    ("t_typical", ReportField::Typical),
    ("t_avg", ReportField::Mean),
    ("t_stdev", ReportField::Stdev),
    ("percentile_99", ReportField::P99),
    ("percentile_99.9", ReportField::P999),
    ("tps_average", ReportField::PerSecond),
];

/// Parses the last report in the output.
///
/// # Errors
/// [`UnusableOutput`].
pub fn parse(kind: TestKind, printed: &str) -> Result<Measurement, UnusableOutput> {
    let (_, results) = printed.rsplit_once("results").ok_or(UnusableOutput::Nothing)?;
    let (_, results) = results.split_once('{').ok_or(UnusableOutput::Nothing)?;
    let (results, _) = results.split_once('}').ok_or(UnusableOutput::Nothing)?;
    let fields: Vec<(ReportField, String)> =
        results.lines().flat_map(|line| line.split(',')).filter_map(field).collect();
    let text = |wanted| fields.iter().find(|(field, _)| *field == wanted).map(|(_, value)| value.clone());
    let (rate, size, average) =
        (text(ReportField::Rate), text(ReportField::Size), text(ReportField::Average));
    measurement(kind, unit(rate, size, average), text)
}

/// Parses a field like `"BW_average": 0.29`, with or without quotes. Returns `None` for unknown fields.
fn field(text: &str) -> Option<(ReportField, String)> {
    let (name, value) = text.split_once(':')?;
    let bare = |text: &str| text.trim_matches([' ', '\t', '"', '{', '[']).to_owned();
    let name = bare(name);
    let (_, field) = NAMES.iter().find(|(known, _)| *known == name)?;
    Some((*field, bare(value)))
}

/// Returns the factor to Gb/s. The report does not contain the unit, so it is derived from the message rate.
fn unit(rate: Option<String>, size: Option<String>, average: Option<String>) -> f64 {
    let number = |text: Option<String>| text.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    let (exact, average) = (number(rate) * number(size) * 8.0 / 1000.0, number(average));
    let (gigabits, mebibytes) = ((average - exact).abs(), (average * MIB - exact).abs());
    if exact > 0.0 && mebibytes < gigabits && mebibytes < exact * 0.01 { MIB } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! golden {
        ($version:literal, $name:literal) => {
            include_str!(concat!("../../golden/", $version, "/", $name, ".report"))
        };
    }

    #[test]
    fn the_report_of_debian_12_is_not_json_and_is_parsed() {
        let text = golden!("4.5+0.17", "write_bw");
        assert!(serde_json::from_str::<serde_json::Value>(text).is_err());
        let read = parse(TestKind::Bandwidth, text).unwrap();
        assert_eq!(
            (read.iterations, read.bandwidth.unwrap().message_rate_mpps),
            (Some(1094), Some(0.000546))
        );
        let latency = parse(TestKind::Latency, golden!("4.5+0.17", "write_lat_n")).unwrap().latency.unwrap();
        assert_eq!(
            (latency.average_us, latency.p99_us, latency.p999_us),
            (819.17, Some(6688.24), Some(6688.24))
        );
    }

    #[test]
    fn report_and_table_of_the_same_test_are_equal() {
        macro_rules! same {
            ($($kind:ident $version:literal $name:literal),*) => {$(
                let table = include_str!(concat!("../../golden/", $version, "/", $name, ".txt"));
                let (report, table) = (parse(TestKind::$kind, golden!($version, $name)), super::super::parse_table(TestKind::$kind, table));
                assert_eq!(report, table, "{} {}", $version, $name);
            )*};
        }
        same!(Bandwidth "4.5+0.17" "write_bw", Bandwidth "4.5+0.17" "send_bw", Bandwidth "4.5+0.17" "read_bw");
        same!(Bandwidth "4.5+0.17" "write_bw_q4", Bandwidth "4.5+0.17" "write_bw_n");
        same!(Latency "4.5+0.17" "write_lat", Latency "4.5+0.17" "read_lat", Latency "4.5+0.17" "send_lat");
        same!(Bandwidth "25.01.0+0.80" "write_bw", Bandwidth "25.01.0+0.80" "send_bw");
        same!(Bandwidth "25.01.0+0.80" "write_bw_q4", Bandwidth "25.01.0+0.80" "write_bw_n");
        same!(Latency "25.01.0+0.80" "write_lat", Latency "25.01.0+0.80" "read_lat", Latency "25.01.0+0.80" "send_lat");
        same!(Latency "25.01.0+0.80" "write_lat_n");
    }

    #[test]
    fn the_last_of_several_reports_is_used() {
        let [first, last] = [golden!("25.01.0+0.80", "write_bw"), golden!("25.01.0+0.80", "send_bw")];
        assert_eq!(parse(TestKind::Bandwidth, &format!("{first}{last}")), parse(TestKind::Bandwidth, last));
    }

    #[test]
    fn mebibytes_are_detected_by_the_message_rate() {
        let report = r#"{"test_info":{"test":"x"},"results":{"MsgSize":65536,"n_iterations":5,"BW_peak":0.00,"BW_average":11920.93,"MsgRate":0.190735}}"#;
        let gbps = parse(TestKind::Bandwidth, report).unwrap().bandwidth.unwrap().average_gbps;
        assert!((gbps - 100.0).abs() < 0.01, "{gbps}");
    }

    #[test]
    fn garbage_is_refused() {
        for bad in ["", "results", "results: {", "{\"results\": {}}", "{\"results\": {\"BW_average\": }}"] {
            assert!(parse(TestKind::Bandwidth, bad).is_err(), "{bad:?}");
        }
        for value in ["inf", "-nan", "0.00", "1e999", "twelve"] {
            let report = format!("results: {{\nMsgSize: 8,\nBW_average: {value},\nMsgRate: {value},\n}},");
            assert!(
                matches!(parse(TestKind::Bandwidth, &report), Err(UnusableOutput::Value { .. })),
                "{value}"
            );
        }
    }
}
