//! A parser for the exposition format, which reads samples as Prometheus does.

use std::collections::{BTreeMap, HashSet};

/// The samples of a scrape.
#[derive(Debug, Clone, Default)]
pub struct Scrape {
    samples: Vec<ScrapedSample>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapedSample {
    /// Name of the metric.
    pub name: String,
    /// Labels by name.
    pub labels: BTreeMap<String, String>,
    /// Value as text, which keeps every digit.
    pub value: String,
}

impl Scrape {
    /// Parses the text format 0.0.4.
    ///
    /// # Panics
    /// If a line is not a sample, or two samples have the same series.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples: Vec<_> =
            lines.map(|line| ScrapedSample::parse(line).unwrap_or_else(|| panic!("{line}"))).collect();
        let mut series = HashSet::new();
        for sample in &samples {
            assert!(series.insert((&sample.name, &sample.labels)), "twice: {sample:?}");
        }
        Self { samples }
    }

    /// Returns the samples of a metric that have these labels and any others.
    pub fn of(&self, name: &str, labels: &[(&str, &str)]) -> Vec<&ScrapedSample> {
        self.samples.iter().filter(|sample| sample.name == name && sample.has(labels)).collect()
    }

    /// Returns the value of the only sample of a metric that has these labels.
    ///
    /// # Panics
    /// If there is not exactly one.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> &str {
        match self.of(name, labels)[..] {
            [one] => &one.value,
            ref found => panic!("{name} {labels:?}: expected one sample, found {found:?}"),
        }
    }

    /// Returns the same value as a number.
    ///
    /// # Panics
    /// As [`Scrape::value`].
    pub fn number(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.value(name, labels).parse().unwrap()
    }

    /// Returns the names of all metrics, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.samples.iter().map(|sample| sample.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns all samples in the order of the text.
    pub fn samples(&self) -> &[ScrapedSample] {
        &self.samples
    }
}

impl ScrapedSample {
    /// Returns whether the sample has these labels.
    pub fn has(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.label(name) == *value)
    }

    /// Returns the value of a label; empty if the sample does not have it.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.split_at(line.find(['{', ' '])?);
        let Some(mut rest) = rest.strip_prefix('{') else {
            return Some(Self { name: name.into(), labels: BTreeMap::new(), value: rest.trim().into() });
        };
        let mut labels = BTreeMap::new();
        while !rest.starts_with('}') {
            let (label, behind) = rest.split_once("=\"")?;
            let (value, behind) = quoted(behind)?;
            labels.insert(label.to_owned(), value);
            rest = behind.strip_prefix(',').unwrap_or(behind);
        }
        Some(Self { name: name.into(), labels, value: rest[1..].trim().into() })
    }
}

/// Returns a quoted text up to its closing quote, unescaped, and the rest after the quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let end = text.find(['"', '\\'])?;
    if text[end..].starts_with('"') {
        return Some((text[..end].to_owned(), &text[end + 1..])); // most have no escapes: this code runs in the emulator
    }
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels() {
        let scrape =
            Scrape::parse("# TYPE a gauge\na{x=\"1\",y=\"q\\\"\\\\\\n}\"} 9007199254740993\nb 2.5\n");
        assert_eq!(scrape.value("a", &[("x", "1"), ("y", "q\"\\\n}")]), "9007199254740993");
        assert_eq!(scrape.number("b", &[]), 2.5);
        assert_eq!(scrape.names(), ["a", "b"]);
    }
}
