//! Label sets.

use std::{fmt, sync::Arc};

/// A label set in its encoded form: `device="mlx5_0",port="1"`, in the order in which the labels were added.
///
/// About a hundred samples of a device have the same labels, so the text is created once and shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelSet(Arc<str>);

/// Builds a [`LabelSet`] from another one and further labels.
#[derive(Debug, Clone)]
pub struct LabelsBuilder(String);

impl LabelSet {
    /// Creates a label set from pairs of name and value. The value can be any text; it is escaped.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'static str, &'a str)>) -> Self {
        let none = LabelsBuilder(String::new());
        pairs.into_iter().fold(none, |labels, (name, value)| labels.with(name, value)).build()
    }

    /// Returns a builder that starts with these labels. Cheaper than [`Self::and`] for more than one label.
    pub fn builder(&self) -> LabelsBuilder {
        let mut text = String::with_capacity(self.0.len() + 128);
        text.push_str(&self.0);
        LabelsBuilder(text)
    }

    /// Returns these labels and one more.
    #[must_use]
    pub fn and(&self, name: &'static str, value: &str) -> Self {
        self.builder().with(name, value).build()
    }

    /// Returns the encoded labels without the braces.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl LabelsBuilder {
    /// Adds a label.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(name);
        self.0.push_str("=\"");
        self.push_escaped(value);
        self.0.push('"');
        self
    }

    /// Adds a label unless its value is missing or empty. Prometheus treats an empty label as a missing one.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<&str>) -> Self {
        match value {
            None | Some("") => self,
            Some(value) => self.with(name, value),
        }
    }

    /// Adds a label with the `Display` text of `value`.
    #[must_use]
    pub fn with_text(self, name: &'static str, value: impl fmt::Display) -> Self {
        self.with(name, &value.to_string())
    }

    /// Returns the label set.
    pub fn build(self) -> LabelSet {
        LabelSet(self.0.into())
    }

    fn push_escaped(&mut self, value: &str) {
        if !value.contains(['\\', '"', '\n']) {
            return self.0.push_str(value);
        }
        for c in value.chars() {
            match c {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_be_any_text() {
        let labels = LabelSet::of([("device", "a\"b\\c\nd"), ("port", "1")]).and("pod_name", "ö,}");
        assert_eq!(labels.as_str(), r#"device="a\"b\\c\nd",port="1",pod_name="ö,}""#);
    }

    #[test]
    fn a_label_without_a_value_is_omitted() {
        let labels = LabelSet::of([("device", "rxe0")]);
        let more = || labels.builder();
        assert_eq!(more().with_some("netdev", Some("")).with_some("netdev", None).build(), labels);
        let both = more().with_some("netdev", Some("eth0")).with_text("numa_node", 1).build();
        assert_eq!(both.as_str(), r#"device="rxe0",netdev="eth0",numa_node="1""#);
    }
}
