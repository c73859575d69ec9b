//! Names and values of metrics from drivers, firmware and users, with control and bidirectional characters.

use exposition::{Exposition, ExpositionFormat, LabelSet, MetricType, metric_name};

pub(super) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let name = format!("rdma_{}", metric_name(&text));
    assert!(is_a_name(&name), "{name:?}");
    let mut exposition = Exposition::default();
    let family = exposition.family("rdma_info", MetricType::Gauge, &text);
    family.add(LabelSet::of([("device", &*text), ("node", "n")]), 1.0);
    for format in [ExpositionFormat::Text, ExpositionFormat::OpenMetrics] {
        let encoded = exposition.encode(format);
        let lines: Vec<_> = encoded.split('\n').filter(|line| !line.is_empty()).collect();
        let end = usize::from(format == ExpositionFormat::OpenMetrics);
        assert_eq!(lines.len(), 3 + end, "a text ends a line: {encoded:?}");
        let value = lines[2].strip_prefix("rdma_info{").and_then(|rest| rest.strip_prefix("device=\""));
        let (value, rest) = match value {
            Some(rest) => read(rest).unwrap(),
            None => (String::new(), &lines[2]["rdma_info{".len()..]),
        };
        assert_eq!(value, text, "{encoded:?}");
        assert!(rest.trim_start_matches(',').starts_with("node=\"n\"} 1"), "{encoded:?}");
    }
}

fn is_a_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_part) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// A label's value, up to its quotation mark, and the rest; `None` without an end or with an invalid escape.
fn read(rest: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &rest[at + 1..])),
            '\\' => value.push(match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, c @ ('"' | '\\'))) => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}
