//! The verdict: whether a measurement reaches its threshold.

use serde::{Deserialize, Serialize};

use crate::{
    TestKind, TestSpec,
    perftest::{Latency, Measurement},
    sanitized_text::SanitizedText,
};

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
    /// Maximum 99th percentile of the latency, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_p99_us: Option<f64>,
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
    /// The threshold of the 99th percentile of the latency, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_p99: Option<f64>,
    /// An explanation, for example `94 % of 100 Gb/s; expected at least 80 %`.
    pub why: SanitizedText,
}

/// Judges a measurement of a test by the user's thresholds and the speeds of the two ports, in Mb/s.
pub fn judge(test: &TestSpec, measured: &Measurement, limit: Threshold, speeds: [Option<u64>; 2]) -> Verdict {
    match test.kind {
        TestKind::Bandwidth
            if test.size.get() < MIN_JUDGED_MESSAGE_BYTES
                && limit.percent.is_none()
                && limit.min_gbps.is_none() =>
        {
            let why = format!(
                "no verdict: messages of less than {MIN_JUDGED_MESSAGE_BYTES} bytes do not saturate a link; set a threshold with --min-gbps"
            );
            Verdict::none(why)
        }
        TestKind::Bandwidth => {
            let gbps = measured.bandwidth.map_or(0.0, |found| found.average_gbps);
            bandwidth(gbps, test.directions(), limit, speeds)
        }
        TestKind::Latency => latency(measured.latency.unwrap_or_default(), limit),
    }
}

impl Verdict {
    fn none(why: impl Into<SanitizedText>) -> Self {
        Self { passed: None, expected: None, expected_p99: None, why: why.into() }
    }
}

fn bandwidth(gbps: f64, directions: u8, limit: Threshold, speeds: [Option<u64>; 2]) -> Verdict {
    let slower = speeds[0].zip(speeds[1]).map(|(a, b)| a.min(b));
    #[expect(clippy::cast_precision_loss, reason = "the speed of a link has few digits")]
    let one = slower.map(|mbps| mbps as f64 / 1000.0);
    let speed = one.map(|one| one * f64::from(directions));
    let share = |speed: f64| match one {
        Some(one) if directions > 1 => {
            format!("{:.0} % of {directions} times {one} Gb/s", 100.0 * gbps / speed)
        }
        _ => format!("{:.0} % of {speed} Gb/s", 100.0 * gbps / speed),
    };
    let percent = limit.percent.unwrap_or(THRESHOLD_PERCENT);
    let (expected, why) = match (limit.min_gbps, speed) {
        (Some(least), Some(speed)) => (least, format!("{}; expected at least {least} Gb/s", share(speed))),
        (Some(least), None) => (least, format!("expected at least {least} Gb/s")),
        (None, Some(speed)) => {
            (speed * percent / 100.0, format!("{}; expected at least {percent} %", share(speed)))
        }
        (None, None) => {
            let why = "no verdict: the speed of a port is unknown; set a threshold with --min-gbps";
            return Verdict::none(why);
        }
    };
    Verdict { passed: Some(gbps >= expected), expected: Some(expected), expected_p99: None, why: why.into() }
}

fn latency(measured: Latency, limit: Threshold) -> Verdict {
    if limit.max_us.is_none() && limit.max_p99_us.is_none() {
        return Verdict::none("no verdict: set a threshold with --max-us or --max-p99-us");
    }
    let average = limit.max_us.map(|most| measured.average_us > 0.0 && measured.average_us <= most);
    // Without a percentile, the threshold is not reached: an unknown value is not a good one.
    let p99 = limit.max_p99_us.map(|most| measured.p99_us.is_some_and(|p99| p99 <= most));
    let found = measured.p99_us.map_or_else(|| "unknown".into(), |p99| format!("{p99} us"));
    let parts = [
        limit.max_us.map(|most| format!("expected at most {most} us")),
        limit.max_p99_us.map(|most| format!("p99 {found}; expected at most {most} us")),
    ];
    Verdict {
        passed: Some(average != Some(false) && p99 != Some(false)),
        expected: limit.max_us,
        expected_p99: limit.max_p99_us,
        why: parts.into_iter().flatten().collect::<Vec<_>>().join("; ").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RdmaOperation, perftest::Bandwidth};

    fn test(kind: TestKind, size: u32) -> TestSpec {
        let one = 1u64;
        let size = u64::from(size).try_into().unwrap();
        TestSpec::new(kind, RdmaOperation::Write, size, one.try_into().unwrap(), one.try_into().unwrap())
    }

    fn of(average_gbps: f64, limit: Threshold, speeds: [Option<u64>; 2]) -> Verdict {
        let bandwidth = Some(Bandwidth { average_gbps, ..Bandwidth::default() });
        judge(
            &test(TestKind::Bandwidth, MIN_JUDGED_MESSAGE_BYTES),
            &Measurement { bandwidth, ..Measurement::default() },
            limit,
            speeds,
        )
    }

    #[test]
    fn small_messages_are_judged_only_by_a_threshold_of_the_user() {
        let measured = Measurement::default();
        let of = |size, limit| {
            judge(&test(TestKind::Bandwidth, size), &measured, limit, [Some(100_000); 2]).passed
        };
        assert_eq!(of(MIN_JUDGED_MESSAGE_BYTES - 1, Threshold::default()), None);
        assert_eq!(of(MIN_JUDGED_MESSAGE_BYTES, Threshold::default()), Some(false));
        assert_eq!(of(2, Threshold { min_gbps: Some(0.1), ..Threshold::default() }), Some(false));
        assert_eq!(of(2, Threshold { percent: Some(1.0), ..Threshold::default() }), Some(false));
        let of_latency = Threshold { max_us: Some(1.0), max_p99_us: Some(1.0), ..Threshold::default() };
        assert_eq!(of(2, of_latency), None);
    }

    #[test]
    fn the_default_threshold_is_80_percent_of_the_slower_port() {
        let speeds = [Some(400_000), Some(100_000)];
        assert_eq!(of(80.0, Threshold::default(), speeds).passed, Some(true));
        let low = of(79.9, Threshold::default(), speeds);
        assert_eq!((low.passed, low.expected), (Some(false), Some(80.0)));
        assert_eq!(low.why.as_str(), "80 % of 100 Gb/s; expected at least 80 %");
        assert_eq!(of(80.0, Threshold::default(), [speeds[1], speeds[0]]).passed, Some(true));
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
        let both = Threshold { percent: Some(50.0), ..more };
        let judged = of(98.0, both, [Some(100_000); 2]);
        assert_eq!(
            (judged.passed, judged.expected),
            (Some(false), Some(99.0)),
            "the number of Gb/s takes precedence"
        );
    }

    #[test]
    fn latency_is_judged_only_by_a_threshold_of_the_user() {
        let latency = Some(Latency { average_us: 2.0, ..Latency::default() });
        let measured = Measurement { latency, ..Measurement::default() };
        let of = |max_us| {
            let limit = Threshold { max_us, ..Threshold::default() };
            judge(&test(TestKind::Latency, 2), &measured, limit, [None, None]).passed
        };
        assert_eq!([of(None), of(Some(2.0)), of(Some(1.9))], [None, Some(true), Some(false)]);
        let limit = Threshold { max_us: Some(2.0), ..Threshold::default() };
        let unmeasured = judge(&test(TestKind::Latency, 2), &Measurement::default(), limit, [None, None]);
        assert_eq!(unmeasured.passed, Some(false), "an unknown value is not a good one");
    }

    #[test]
    fn both_directions_are_judged_by_twice_the_speed() {
        let mut test = test(TestKind::Bandwidth, MIN_JUDGED_MESSAGE_BYTES);
        test.options.bidirectional = true;
        let of = |average_gbps| {
            let bandwidth = Some(Bandwidth { average_gbps, ..Bandwidth::default() });
            let measured = Measurement { bandwidth, ..Measurement::default() };
            judge(&test, &measured, Threshold::default(), [Some(100_000); 2])
        };
        assert_eq!((of(150.0).passed, of(160.0).passed), (Some(false), Some(true)));
        assert_eq!(of(150.0).why.as_str(), "75 % of 2 times 100 Gb/s; expected at least 80 %");
    }

    #[test]
    fn the_99th_percentile_has_a_threshold_of_its_own() {
        let of = |p99_us, max_us| {
            let latency = Some(Latency { average_us: 2.0, p99_us, ..Latency::default() });
            let measured = Measurement { latency, ..Measurement::default() };
            let limit = Threshold { max_us, max_p99_us: Some(5.0), ..Threshold::default() };
            judge(&test(TestKind::Latency, 8), &measured, limit, [None, None])
        };
        assert_eq!(of(Some(4.5), None).passed, Some(true));
        assert_eq!(of(Some(5.5), None).passed, Some(false));
        assert_eq!(of(None, None).passed, Some(false), "an unknown percentile is not a good one");
        assert_eq!(of(Some(4.5), Some(1.0)).passed, Some(false));
        let both = of(Some(5.5), Some(3.0));
        assert_eq!((both.expected, both.expected_p99), (Some(3.0), Some(5.0)));
        assert_eq!(both.why.as_str(), "expected at most 3 us; p99 5.5 us; expected at most 5 us");
    }
}
