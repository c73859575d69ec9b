//! What was measured, in one unit whatever the program's.

use serde::{Deserialize, Serialize};

use crate::TestKind;

/// One line of perftest's report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// How many messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// Of a test of bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Of a test of latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// How much went through, in 10^9 bit/s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bandwidth {
    /// Over the whole test.
    pub average_gbps: f64,
    /// Of the best moment; a test by duration has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_gbps: Option<f64>,
    /// Messages, in 10^6/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_rate_mpps: Option<f64>,
}

/// How long a message takes, in microseconds. A test by duration has the average only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// The mean.
    pub average_us: f64,
    /// The shortest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_us: Option<f64>,
    /// The longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_us: Option<f64>,
    /// The median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_us: Option<f64>,
    /// The standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdev_us: Option<f64>,
    /// 99 of 100 are shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// 999 of 1000 are shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_us: Option<f64>,
    /// Messages per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<f64>,
}

/// Why what was printed is no measurement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableOutput {
    /// Neither a report nor a table.
    #[error("it printed no result")]
    Nothing,
    /// `inf`, `nan`, or a zero where none can be.
    #[error("{field} is {value}: no measurement")]
    Value {
        /// Which.
        field: &'static str,
        /// As it was printed.
        value: String,
    },
    /// The test took its time, and no message arrived.
    #[error("no message got through")]
    NoMessage,
    /// A line that does not fit its table's head.
    #[error("its table has a line that does not fit its head: {line}")]
    Shape {
        /// The line.
        line: String,
    },
}

/// The fields of a report or a table, whatever they are called there.
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
    /// Known, and of no interest.
    Other,
}

/// Bits of a MiB/s in Gb/s: what perftest reports where nobody asked for gigabits.
pub(super) const MIB: f64 = 8.0 * 1_048_576.0 / 1e9;

/// The measurement of these fields. `unit` is what a bandwidth of 1 is in Gb/s.
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
                // Of small messages, all the digits of the bandwidth are zeros, but not of their rate.
                (Err(_), Some(exact)) if is_zero(text(ReportField::Average)) => exact,
                (Err(why), _) => return Err(why),
            };
            // Two digits, not always rounded, are few for a slow link.
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
