//! A measurement, in fixed units regardless of the program's.

use serde::{Deserialize, Serialize};

use crate::TestKind;

/// The measurement of one test: one line of perftest's table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// The number of messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// The result of a bandwidth test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// The result of a latency test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// Bandwidth, in 10^9 bit/s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bandwidth {
    /// The average over the whole test.
    pub average_gbps: f64,
    /// The peak; `None` for a test by duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_gbps: Option<f64>,
    /// The message rate, in 10^6 messages/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_rate_mpps: Option<f64>,
}

/// Latency of one message, in microseconds. A test by duration has only the average.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// The average.
    pub average_us: f64,
    /// The minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_us: Option<f64>,
    /// The maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_us: Option<f64>,
    /// The median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_us: Option<f64>,
    /// The standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdev_us: Option<f64>,
    /// The 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// The 99.9th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_us: Option<f64>,
    /// The number of messages per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<f64>,
}

/// Why the output is not a valid measurement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableOutput {
    /// The output contains neither a report nor a table.
    #[error("no result in the output")]
    Nothing,
    /// A value is `inf`, `nan`, zero or negative.
    #[error("invalid {field}: {value}")]
    Value {
        /// The name of the value, for example `average bandwidth`.
        field: &'static str,
        /// The printed text.
        value: String,
    },
    /// The test ran for its whole duration, and no message arrived.
    #[error("no message arrived")]
    NoMessage,
    /// A line of the table does not match its header.
    #[error("a line of the table does not match the header: {line}")]
    Shape {
        /// The line, trimmed.
        line: String,
    },
}

/// The fields of a report or a table, independent of their names there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportField {
    Size,
    Iterations,
    Peak,
    Average,
    Rate,
    Min,
    Max,
    Typical,
    Mean,
    Stdev,
    P99,
    P999,
    PerSecond,
    /// A known field that is ignored.
    Other,
}

/// 1 MiB/s in Gb/s. perftest reports MiB/s without `--report_gbits`.
pub(super) const MIB: f64 = 8.0 * 1_048_576.0 / 1e9;

/// Returns the measurement of the fields that `text` returns. `unit` is the factor from the printed bandwidth to Gb/s.
pub(super) fn measurement(
    kind: TestKind,
    unit: f64,
    text: impl Fn(ReportField) -> Option<String>,
) -> Result<Measurement, UnusableOutput> {
    let number = |field| {
        text(field)
            .and_then(|text| text.parse::<f64>().ok())
            .filter(|value| value.is_finite() && *value > 0.0)
    };
    let wanted = |field, name| {
        number(field).ok_or_else(|| match text(field) {
            None => UnusableOutput::Nothing,
            Some(value) => UnusableOutput::Value { field: name, value },
        })
    };
    let iterations = text(ReportField::Iterations).and_then(|text| text.parse().ok());
    if iterations == Some(0) {
        return Err(UnusableOutput::NoMessage);
    }
    Ok(match kind {
        TestKind::Bandwidth => {
            let rate = number(ReportField::Rate);
            let exact = rate.zip(number(ReportField::Size)).map(|(rate, size)| rate * size * 8.0 / 1000.0);
            let printed = match (wanted(ReportField::Average, "average bandwidth"), exact) {
                (Ok(average), _) => average * unit,
                // For small messages the printed bandwidth can be rounded to zero; the message rate is not.
                (Err(_), Some(exact)) if is_zero(text(ReportField::Average)) => exact,
                (Err(why), _) => return Err(why),
            };
            // The printed bandwidth has two digits, not always rounded. The rate is more precise for a slow link.
            let average_gbps = exact.filter(|exact| (exact - printed).abs() < 0.011).unwrap_or(printed);
            let peak_gbps = number(ReportField::Peak).map(|peak| peak * unit);
            let bandwidth = Bandwidth { average_gbps, peak_gbps, message_rate_mpps: rate };
            Measurement { iterations, bandwidth: Some(bandwidth), latency: None }
        }
        TestKind::Latency => {
            let latency = Latency {
                average_us: wanted(ReportField::Mean, "average latency")?,
                min_us: number(ReportField::Min),
                max_us: number(ReportField::Max),
                typical_us: number(ReportField::Typical),
                stdev_us: number(ReportField::Stdev),
                p99_us: number(ReportField::P99),
                p999_us: number(ReportField::P999),
                messages_per_second: number(ReportField::PerSecond),
            };
            Measurement { iterations, bandwidth: None, latency: Some(latency) }
        }
    })
}

fn is_zero(text: Option<String>) -> bool {
    text.and_then(|text| text.parse::<f64>().ok()) == Some(0.0)
}
