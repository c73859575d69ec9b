//! Encoding of an exposition as text.

use std::{
    fmt::{Display, Write},
    thread,
};

use crate::{Exposition, MetricFamily, MetricType, SampleValue};

/// A text format that Prometheus accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExpositionFormat {
    /// The classic text format, version 0.0.4. node_exporter's textfile collector also reads it.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl ExpositionFormat {
    /// Returns the value of the HTTP header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Two threads encode an exposition with more samples than this, as its text is megabytes long.
const PARALLEL_ENCODE_SAMPLES: usize = 4096;

impl Exposition {
    /// Encodes all families that have samples, sorted by name.
    pub fn encode(&self, format: ExpositionFormat) -> String {
        let families = self.sorted();
        let samples: usize = families.iter().map(|family| family.samples.len()).sum();
        let mut text = if samples > PARALLEL_ENCODE_SAMPLES {
            let half = split_point(&families, samples);
            thread::scope(|scope| {
                let rest = scope.spawn(|| write(String::new(), &families[half..], format));
                let room = String::with_capacity(length(&families)); // for both halves
                let mut first = write(room, &families[..half], format);
                match rest.join() {
                    Ok(rest) => first.push_str(&rest),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
                first
            })
        } else {
            write(String::new(), &families, format)
        };
        if format == ExpositionFormat::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

/// Returns the number of leading families that contain about half of the samples.
fn split_point(families: &[&MetricFamily], samples: usize) -> usize {
    let mut before = 0;
    let beyond = families.iter().position(|family| {
        before += family.samples.len();
        before > samples / 2
    });
    beyond.unwrap_or(families.len())
}

/// Estimates the length of the families' text in bytes.
fn length(families: &[&MetricFamily]) -> usize {
    let line = |family: &MetricFamily| family.samples.first().map_or(0, |(labels, _)| labels.as_str().len());
    let length = |family: &&MetricFamily| family.samples.len() * (family.name.len() + line(family) + 24);
    families.iter().map(length).sum::<usize>() + families.len() * 256
}

fn write(mut text: String, families: &[&MetricFamily], format: ExpositionFormat) -> String {
    text.reserve(length(families));
    for family in families {
        head(&mut text, family, format);
        for (at, (labels, value)) in family.samples.iter().enumerate() {
            let suffix = family.suffixes.get(at).copied().unwrap_or_default();
            sample(&mut text, &family.name, suffix, labels.as_str(), *value);
        }
    }
    text
}

fn head(text: &mut String, family: &MetricFamily, format: ExpositionFormat) {
    let name = match (format, family.kind) {
        (ExpositionFormat::OpenMetrics, MetricType::Counter) => {
            family.name.strip_suffix("_total").unwrap_or(&family.name)
        }
        _ => &family.name,
    };
    let kind = match family.kind {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
    };
    let _ = write!(text, "# HELP {name} ");
    for c in family.help.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if format == ExpositionFormat::OpenMetrics => text.push_str("\\\""),
            other => text.push(other),
        }
    }
    let _ = writeln!(text, "\n# TYPE {name} {kind}");
}

fn sample(text: &mut String, name: &str, suffix: &str, labels: &str, value: SampleValue) {
    text.push_str(name);
    text.push_str(suffix);
    if !labels.is_empty() {
        text.push('{');
        text.push_str(labels);
        text.push('}');
    }
    text.push(' ');
    match value {
        SampleValue::Integer(0) => text.push('0'), // most counters of most devices
        SampleValue::Integer(number) => push(text, number),
        SampleValue::Float(number) if number.is_nan() => text.push_str("NaN"),
        SampleValue::Float(f64::INFINITY) => text.push_str("+Inf"),
        SampleValue::Float(f64::NEG_INFINITY) => text.push_str("-Inf"),
        SampleValue::Float(number) => push(text, number),
    }
    text.push('\n');
}

fn push(text: &mut String, number: impl Display) {
    let _ = std::fmt::Write::write_fmt(text, format_args!("{number}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabelSet;

    fn some() -> Exposition {
        let mut some = Exposition::default();
        let port = LabelSet::of([("device", "mlx5_0"), ("port", "1")]);
        some.family("rdma_port_up", MetricType::Gauge, "Whether \"traffic\" flows\\.")
            .add(port.clone(), true);
        some.family("rdma_duplicate_request_total", MetricType::Counter, "a\nb")
            .add(port.clone(), 9007199254740993);
        some.family("rdma_duplicate_request_total", MetricType::Counter, "").add(port.and("x", "y"), 0);
        some.family("rdma_a_seconds", MetricType::Gauge, "Time.").add(LabelSet::of([]), 0.25);
        some.family("rdma_nothing", MetricType::Gauge, "Never sent.");
        some
    }

    #[test]
    fn the_classic_text_names_a_counter_with_its_suffix() {
        assert_eq!(
            some().encode(ExpositionFormat::Text),
            "# HELP rdma_a_seconds Time.\n# TYPE rdma_a_seconds gauge\nrdma_a_seconds 0.25\n\
             # HELP rdma_duplicate_request_total a\\nb\n# TYPE rdma_duplicate_request_total counter\n\
             rdma_duplicate_request_total{device=\"mlx5_0\",port=\"1\"} 9007199254740993\n\
             rdma_duplicate_request_total{device=\"mlx5_0\",port=\"1\",x=\"y\"} 0\n\
             # HELP rdma_port_up Whether \"traffic\" flows\\\\.\n# TYPE rdma_port_up gauge\n\
             rdma_port_up{device=\"mlx5_0\",port=\"1\"} 1\n"
        );
    }

    #[test]
    fn openmetrics_omits_the_suffix_in_the_family_name_and_ends_with_eof() {
        let text = some().encode(ExpositionFormat::OpenMetrics);
        assert!(
            text.contains("# TYPE rdma_duplicate_request counter\nrdma_duplicate_request_total{"),
            "{text}"
        );
        assert!(text.contains("Whether \\\"traffic\\\" flows\\\\."), "{text}");
        assert!(text.ends_with("rdma_port_up{device=\"mlx5_0\",port=\"1\"} 1\n# EOF\n"), "{text}");
        let mut gauge = Exposition::default();
        gauge.family("x_total", MetricType::Gauge, "").add(LabelSet::of([]), 1);
        let text = gauge.encode(ExpositionFormat::OpenMetrics);
        assert!(text.ends_with("# TYPE x_total gauge\nx_total 1\n# EOF\n"), "only of a counter: {text}");
    }

    #[test]
    fn special_float_values_have_names() {
        let mut odd = Exposition::default();
        let family = odd.family("x", MetricType::Gauge, "");
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
            family.add(LabelSet::of([]), value);
        }
        let text = odd.encode(ExpositionFormat::Text);
        assert!(text.contains("x NaN\nx +Inf\nx -Inf\nx 1000000"), "{text}");
    }

    #[test]
    fn two_threads_produce_the_same_text_as_one() {
        let mut large = Exposition::default();
        for family in 0..100 {
            for sample in 0..family {
                let family = large.family(&format!("f{family:03}"), MetricType::Gauge, "x");
                family.add(LabelSet::of([("n", sample.to_string().as_str())]), u64::MAX - sample);
            }
        }
        let text = large.encode(ExpositionFormat::Text);
        assert_eq!(text, write(String::new(), &large.sorted(), ExpositionFormat::Text));
        assert_eq!(text.lines().count(), 99 * 100 / 2 + 2 * 99);
        assert_eq!(large.encode(ExpositionFormat::OpenMetrics), format!("{text}# EOF\n"));
    }
}
