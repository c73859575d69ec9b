//! The labels of a sample.

use std::{fmt::Write, sync::Arc};

/// Labels, written as they will be sent: `device="mlx5_0",port="1"`.
///
/// A device has a hundred samples with the same labels, so these are made once and shared. The order is the order in
/// which they were added.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<str>);

impl Labels {
    /// These labels: pairs of name and value. A name is the program's own, the value may be any text.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'static str, &'a str)>) -> Self {
        let mut text = String::new();
        pairs.into_iter().for_each(|(name, value)| push(&mut text, name, value));
        Self(text.into())
    }

    /// These and one more.
    pub fn and(&self, name: &'static str, value: &str) -> Self {
        let mut text = String::with_capacity(self.0.len() + name.len() + value.len() + 4);
        text.push_str(&self.0);
        push(&mut text, name, value);
        Self(text.into())
    }

    /// These and one more, if it has a value: Prometheus takes an empty label for one that is not there.
    pub fn and_some(&self, name: &'static str, value: Option<&str>) -> Self {
        match value {
            None | Some("") => self.clone(),
            Some(value) => self.and(name, value),
        }
    }

    /// As they are sent, without the braces.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn push(text: &mut String, name: &str, value: &str) {
    if !text.is_empty() {
        text.push(',');
    }
    let _ = write!(text, "{name}=\"");
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_be_any_text() {
        let labels = Labels::of([("device", "a\"b\\c\nd"), ("port", "1")]).and("pod_name", "ö,}");
        assert_eq!(labels.as_str(), r#"device="a\"b\\c\nd",port="1",pod_name="ö,}""#);
    }

    #[test]
    fn a_label_without_a_value_is_none() {
        let labels = Labels::of([("device", "rxe0")]);
        assert_eq!(labels.and_some("netdev", Some("")), labels);
        assert_eq!(labels.and_some("netdev", None), labels);
        assert_eq!(labels.and_some("netdev", Some("eth0")).as_str(), r#"device="rxe0",netdev="eth0""#);
    }
}
