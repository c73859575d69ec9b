//! The metrics reference says of every metric what Prometheus' conventions ask for.

use std::collections::BTreeSet;

use crate::catalogue::Catalogue;

#[test]
fn every_metric_is_there_once_with_its_meaning_and_source() {
    let mut names = BTreeSet::new();
    for row in Catalogue::read().rows() {
        assert!(names.insert(row.name.clone()), "{} is there twice", row.name);
        assert!(row.labels.iter().any(|label| label == "node"), "{} is of no node", row.name);
        assert!(!row.meaning.is_empty() && !row.source.is_empty(), "{}", row.name);
    }
    assert!(names.len() > 100, "{names:?}");
}

#[test]
fn counters_and_only_they_end_in_total() {
    for row in Catalogue::read().rows() {
        let counter = match row.kind.as_str() {
            "counter" => true,
            "gauge" => false,
            other => panic!("{} is a {other}", row.name),
        };
        assert_eq!(counter, row.name.ends_with("_total"), "{}", row.name);
    }
}

#[test]
fn names_are_in_snake_case() {
    for metric in Catalogue::read().metrics() {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        for name in metric.labels.iter().chain([&metric.name]) {
            assert!(name.chars().all(plain) && !name.contains("__"), "{}: {name}", metric.name);
        }
    }
}
