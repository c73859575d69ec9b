//! The verdict: whether a measurement reaches its threshold.

use serde::{Deserialize, Serialize};

use crate::{TestKind, perftest::Measurement};

/// Default threshold for bandwidth, in percent of the slower port's speed.
///
/// RoCE headers take 5 to 8 % at an MTU of 4096, more at 1024, and a busy switch some more. A link with a bad cable, reduced
/// PCIe width or no flow control loses more than half.
pub const THRESHOLD_PERCENT: f64 = 80.0;

/// Smaller messages cannot saturate a link: the message rate of the card limits the bandwidth.
const MIN_JUDGED_MESSAGE_BYTES: u32 = 65_536;

/// The user's thresholds. Without any, the threshold is [`THRESHOLD_PERCENT`] of the slower port's speed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Threshold {
    /// Minimum bandwidth, in percent of the slower port's speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// Minimum bandwidth, in Gb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_gbps: Option<f64>,
    /// Maximum latency, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_us: Option<f64>,
}

/// The verdict on a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether the threshold was reached; `None` if there is no threshold.
    pub passed: Option<bool>,
    /// The threshold: Gb/s for bandwidth, microseconds for latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// An explanation, for example `94 % of 100 Gb/s; expected at least 80 %`.
    pub why: crate::sanitized_text::SanitizedText,
}

/// Judges a measurement with messages of `size` bytes by the user's thresholds and the speeds of the two ports, in Mb/s.
pub fn judge(
    kind: TestKind,
    size: u32,
    measured: &Measurement,
    limit: Threshold,
    speeds: [Option<u64>; 2],
) -> Verdict {
    match kind {
        TestKind::Bandwidth
            if size < MIN_JUDGED_MESSAGE_BYTES && limit.percent.is_none() && limit.min_gbps.is_none() =>
        {
            let why = format!(
                "no verdict: messages of less than {MIN_JUDGED_MESSAGE_BYTES} bytes do not saturate a link; set a threshold with --min-gbps"
            );
            Verdict { passed: None, expected: None, why: why.into() }
        }
        TestKind::Bandwidth => {
            bandwidth(measured.bandwidth.map_or(0.0, |found| found.average_gbps), limit, speeds)
        }
        TestKind::Latency => latency(measured.latency.map_or(f64::INFINITY, |found| found.average_us), limit),
    }
}

fn bandwidth(gbps: f64, limit: Threshold, speeds: [Option<u64>; 2]) -> Verdict {
    let slower = speeds[0].zip(speeds[1]).map(|(a, b)| a.min(b));
    #[expect(clippy::cast_precision_loss, reason = "the speed of a link has few digits")]
    let speed = slower.map(|mbps| mbps as f64 / 1000.0);
    let share = |speed: f64| format!("{:.0} % of {speed} Gb/s", 100.0 * gbps / speed);
    let percent = limit.percent.unwrap_or(THRESHOLD_PERCENT);
    let (expected, why) = match (limit.min_gbps, speed) {
        (Some(least), Some(speed)) => (least, format!("{}; expected at least {least} Gb/s", share(speed))),
        (Some(least), None) => (least, format!("expected at least {least} Gb/s")),
        (None, Some(speed)) => {
            (speed * percent / 100.0, format!("{}; expected at least {percent} %", share(speed)))
        }
        (None, None) => {
            let why = "no verdict: the speed of a port is unknown; set a threshold with --min-gbps";
            return Verdict { passed: None, expected: None, why: why.into() };
        }
    };
    Verdict { passed: Some(gbps >= expected), expected: Some(expected), why: why.into() }
}

fn latency(microseconds: f64, limit: Threshold) -> Verdict {
    match limit.max_us {
        Some(most) => Verdict {
            passed: Some(microseconds <= most),
            expected: Some(most),
            why: format!("expected at most {most} us").into(),
        },
        None => {
            Verdict { passed: None, expected: None, why: "no verdict: set a threshold with --max-us".into() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perftest::{Bandwidth, Latency};

    fn of(average_gbps: f64, limit: Threshold, speeds: [Option<u64>; 2]) -> Verdict {
        let bandwidth = Some(Bandwidth { average_gbps, ..Bandwidth::default() });
        judge(
            TestKind::Bandwidth,
            MIN_JUDGED_MESSAGE_BYTES,
            &Measurement { bandwidth, ..Measurement::default() },
            limit,
            speeds,
        )
    }

    #[test]
    fn small_messages_are_judged_only_by_a_threshold_of_the_user() {
        let measured = Measurement::default();
        let of = |size, limit| judge(TestKind::Bandwidth, size, &measured, limit, [Some(100_000); 2]).passed;
        assert_eq!(of(MIN_JUDGED_MESSAGE_BYTES - 1, Threshold::default()), None);
        assert_eq!(of(MIN_JUDGED_MESSAGE_BYTES, Threshold::default()), Some(false));
        assert_eq!(of(2, Threshold { min_gbps: Some(0.1), ..Threshold::default() }), Some(false));
    }

    #[test]
    fn the_default_threshold_is_80_percent_of_the_slower_port() {
        let speeds = [Some(400_000), Some(100_000)];
        assert_eq!(of(80.0, Threshold::default(), speeds).passed, Some(true));
        let low = of(79.9, Threshold::default(), speeds);
        assert_eq!((low.passed, low.expected), (Some(false), Some(80.0)));
        assert_eq!(low.why.as_str(), "80 % of 100 Gb/s; expected at least 80 %");
    }

    #[test]
    fn without_a_speed_there_is_no_verdict() {
        for speeds in [[None, Some(100_000)], [Some(100_000), None], [None, None]] {
            let none = of(1.0, Threshold::default(), speeds);
            assert_eq!((none.passed, none.expected), (None, None));
            let limit = Threshold { min_gbps: Some(1.5), ..Threshold::default() };
            assert_eq!(of(1.0, limit, speeds).passed, Some(false));
            assert_eq!(of(2.0, limit, speeds).passed, Some(true));
        }
    }

    #[test]
    fn a_threshold_of_the_user_replaces_the_default() {
        let half = Threshold { percent: Some(50.0), ..Threshold::default() };
        assert_eq!(of(50.0, half, [Some(100_000); 2]).passed, Some(true));
        let more = Threshold { min_gbps: Some(99.0), ..Threshold::default() };
        assert_eq!(of(98.0, more, [Some(100_000); 2]).passed, Some(false));
    }

    #[test]
    fn latency_is_judged_only_by_a_threshold_of_the_user() {
        let latency = Some(Latency { average_us: 2.0, ..Latency::default() });
        let measured = Measurement { latency, ..Measurement::default() };
        let of = |max_us| {
            judge(TestKind::Latency, 2, &measured, Threshold { max_us, ..Threshold::default() }, [None, None])
                .passed
        };
        assert_eq!([of(None), of(Some(2.0)), of(Some(1.9))], [None, Some(true), Some(false)]);
    }
}
