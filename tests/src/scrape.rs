//! What a scrape says, read as Prometheus reads it.

use std::collections::BTreeMap;

/// The samples of a scrape.
#[derive(Debug, Clone, Default)]
pub struct Scrape {
    samples: Vec<ScrapedSample>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapedSample {
    /// The metric.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value, digit by digit.
    pub value: String,
}

impl Scrape {
    /// Reads the classic text.
    ///
    /// # Panics
    /// If a line is no sample, or two are of the same series.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples: Vec<_> =
            lines.map(|line| ScrapedSample::parse(line).unwrap_or_else(|| panic!("{line}"))).collect();
        let mut series = std::collections::BTreeSet::new();
        for sample in &samples {
            assert!(series.insert((&sample.name, &sample.labels)), "twice: {sample:?}");
        }
        Self { samples }
    }

    /// The samples of a metric that have these labels, among others.
    pub fn of(&self, name: &str, labels: &[(&str, &str)]) -> Vec<&ScrapedSample> {
        self.samples.iter().filter(|sample| sample.name == name && sample.has(labels)).collect()
    }

    /// The value of the one sample of a metric that has these labels.
    ///
    /// # Panics
    /// If there is none, or more.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> &str {
        match self.of(name, labels)[..] {
            [one] => &one.value,
            ref found => panic!("{name} {labels:?}: expected one sample, found {found:?}"),
        }
    }

    /// As a number.
    ///
    /// # Panics
    /// As [`Scrape::value`].
    pub fn number(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.value(name, labels).parse().unwrap()
    }

    /// The names of all metrics.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.samples.iter().map(|sample| sample.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// All samples.
    pub fn samples(&self) -> &[ScrapedSample] {
        &self.samples
    }
}

impl ScrapedSample {
    /// Whether it has these labels.
    pub fn has(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.label(name) == *value)
    }

    /// A label's value; empty if it has none.
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

/// A text up to its closing quote, and what is behind that.
fn quoted(text: &str) -> Option<(String, &str)> {
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
