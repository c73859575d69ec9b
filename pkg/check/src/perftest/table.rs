//! The table that every version of perftest prints.
//!
//! The names in the header contain spaces, the columns are aligned only roughly, and the set of columns depends on the
//! version. So columns are identified by their names, in the order of the header.

use super::measurement::{MIB, Measurement, ReportField, UnusableOutput, measurement};
use crate::TestKind;

const NAMES: [(&str, ReportField); 14] = [
    ("#bytes", ReportField::Size),
    ("#iterations", ReportField::Iterations),
    ("BW peak[", ReportField::Peak),
    ("BW average[", ReportField::Average),
    ("MsgRate[Mpps]", ReportField::Rate),
    ("t_min[usec]", ReportField::Min),
    ("t_max[usec]", ReportField::Max),
    ("t_typical[usec]", ReportField::Typical),
    ("t_avg[usec]", ReportField::Mean),
    ("t_stdev[usec]", ReportField::Stdev),
    ("99% percentile[usec]", ReportField::P99),
    ("99.9% percentile[usec]", ReportField::P999),
    ("tps average", ReportField::PerSecond),
    ("CPU_Util[%]", ReportField::Other),
];

/// Parses the last line of the table.
///
/// # Errors
/// [`UnusableOutput`].
pub fn parse(kind: TestKind, printed: &str) -> Result<Measurement, UnusableOutput> {
    let mut lines = printed.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
    let head = lines.next().ok_or(UnusableOutput::Nothing)?;
    // There can be warnings between the lines.
    let rows = lines.filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    let row = rows.last().ok_or(UnusableOutput::Nothing)?;
    let columns = columns(head);
    let values: Vec<&str> = row.split_whitespace().collect();
    if values.len() != columns.len() {
        return Err(UnusableOutput::Shape { line: row.trim().to_owned() });
    }
    let unit = if head.contains("[Gb/sec]") { 1.0 } else { MIB };
    measurement(kind, unit, |field| {
        let at = columns.iter().position(|column| *column == field)?;
        Some(values[at].to_owned())
    })
}

fn columns(head: &str) -> Vec<ReportField> {
    let mut found: Vec<_> =
        NAMES.iter().filter_map(|(name, field)| Some((head.find(name)?, *field))).collect();
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, field)| field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! golden {
        ($version:literal, $name:literal) => {
            include_str!(concat!("../../golden/", $version, "/", $name, ".txt"))
        };
    }

    fn gbps(printed: &str) -> f64 {
        parse(TestKind::Bandwidth, printed).unwrap().bandwidth.unwrap().average_gbps
    }

    fn microseconds(printed: &str) -> f64 {
        parse(TestKind::Latency, printed).unwrap().latency.unwrap().average_us
    }

    /// The printed bandwidth has two digits; the value can have more from the message rate.
    fn assert_about(value: f64, expected: f64) {
        assert!((value - expected).abs() < 0.011, "{value} is not about {expected}");
    }

    #[test]
    fn bandwidth_of_debian_12_is_parsed() {
        assert_about(gbps(golden!("4.5+0.17", "write_bw")), 0.29);
        assert_about(gbps(golden!("4.5+0.17", "write_bw_q4")), 0.49);
        assert_about(gbps(golden!("4.5+0.17", "read_bw")), 0.38);
        assert_about(gbps(golden!("4.5+0.17", "write_bw_n")), 0.34);
        let one = parse(TestKind::Bandwidth, golden!("4.5+0.17", "write_bw")).unwrap();
        assert_eq!(one.iterations, Some(1094));
        assert_eq!(one.bandwidth.unwrap().peak_gbps, None, "a test by duration has none, and prints 0.00");
        assert_eq!(one.bandwidth.unwrap().average_gbps, 0.000546 * 65536.0 * 8.0 / 1000.0);
    }

    #[test]
    fn bandwidth_of_debian_13_is_parsed() {
        assert_about(gbps(golden!("25.01.0+0.80", "write_bw")), 0.70);
        assert_about(gbps(golden!("25.01.0+0.80", "read_bw")), 0.81);
        assert_about(gbps(golden!("25.01.0+0.80", "send_bw")), 0.44);
        let peak = parse(TestKind::Bandwidth, golden!("25.01.0+0.80", "write_bw_n")).unwrap();
        assert_eq!(peak.bandwidth.unwrap().peak_gbps, Some(0.39));
    }

    #[test]
    fn latency_of_both_versions_is_parsed() {
        assert_eq!(microseconds(golden!("4.5+0.17", "write_lat")), 1883.14);
        assert_eq!(microseconds(golden!("4.5+0.17", "send_lat")), 809.78);
        assert_eq!(microseconds(golden!("25.01.0+0.80", "send_lat")), 1505.21);
        let all = parse(TestKind::Latency, golden!("4.5+0.17", "write_lat_n")).unwrap().latency.unwrap();
        let figures = [all.min_us, all.max_us, all.typical_us, all.stdev_us, all.p99_us, all.p999_us];
        assert_eq!(figures, [25.98, 6688.24, 124.76, 1126.02, 6688.24, 6688.24].map(Some));
    }

    #[test]
    fn an_unknown_clock_rate_is_an_error() {
        // Recorded: "Correlation coefficient r^2: 0.689468 < 0.9", and a line of zeros.
        let zeros = parse(TestKind::Bandwidth, golden!("25.01.0+0.80", "write_bw_q4"));
        assert_eq!(
            zeros,
            Err(UnusableOutput::Value { field: "average bandwidth", value: "0.000000".into() })
        );
    }

    #[test]
    fn a_test_without_messages_is_not_mistaken_for_an_unknown_clock_rate() {
        let head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n";
        let silent =
            format!("{head} 65536      0           0.000000            0.000000            0.000000\n");
        assert_eq!(parse(TestKind::Bandwidth, &silent), Err(UnusableOutput::NoMessage));
    }

    #[test]
    fn inf_and_nan_are_errors() {
        let head = " #bytes        #iterations       t_avg[usec]    tps average\n";
        for bad in ["inf", "-inf", "nan", "-nan", "0.00", "-1.0"] {
            let printed = format!("{head} 8             1237            {bad}         617.45 \n");
            let value = bad.to_owned();
            assert_eq!(
                parse(TestKind::Latency, &printed),
                Err(UnusableOutput::Value { field: "average latency", value })
            );
            let printed = format!(
                " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 8 1 0.00 {bad} {bad}\n"
            );
            assert!(
                matches!(parse(TestKind::Bandwidth, &printed), Err(UnusableOutput::Value { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn bandwidth_that_is_rounded_to_zero_is_computed_from_the_message_rate() {
        let head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n";
        assert_eq!(gbps(&format!("{head} 2 9000 0.00 0.00 0.004500\n")), 0.0045 * 2.0 * 8.0 / 1000.0);
    }

    #[test]
    fn units_of_older_versions_are_converted() {
        let head = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n";
        let hundred = gbps(&format!("{head} 65536 1000 0.00 11920.93 0.190735\n"));
        assert!((hundred - 100.0).abs() < 0.01, "{hundred}");
    }

    #[test]
    fn warnings_and_additional_columns_are_ignored() {
        let printed = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]   CPU_Util[%]\n\
            Conflicting CPU frequency values detected: 800.000000 != 2899.000000. CPU Frequency is not max.\n \
            65536      1000             97.10              96.50              0.184059        3.1\n";
        assert_about(gbps(printed), 96.50);
    }

    #[test]
    fn the_last_line_is_the_result() {
        let head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n";
        let two = format!("{head} 65536 1000 0.00 90.00 0.171661\n 65536 2000 0.00 96.50 0.184059\n");
        assert_about(gbps(&two), 96.50);
        assert_eq!(parse(TestKind::Bandwidth, &two).unwrap().iterations, Some(2000));
    }

    #[test]
    fn a_line_that_does_not_match_the_header_is_refused() {
        let short = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 65536 1000 97.1\n";
        assert_eq!(
            parse(TestKind::Bandwidth, short),
            Err(UnusableOutput::Shape { line: "65536 1000 97.1".into() })
        );
        let header_only = short.lines().next().unwrap();
        assert_eq!(parse(TestKind::Bandwidth, header_only), Err(UnusableOutput::Nothing));
        assert_eq!(parse(TestKind::Latency, golden!("4.5+0.17", "write_bw")), Err(UnusableOutput::Nothing));
        assert_eq!(parse(TestKind::Bandwidth, ""), Err(UnusableOutput::Nothing));
    }
}
