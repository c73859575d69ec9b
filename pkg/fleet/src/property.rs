//! What is compared between nodes.

use std::collections::BTreeMap;

use serde::Serialize;

/// A property of a node, or of its equal parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Property {
    /// The model of the parts; empty for a property of the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// The property: `kernel`, `firmware`.
    pub name: &'static str,
}

impl std::fmt::Display for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.of.is_empty() {
            true => f.write_str(self.name),
            false => write!(f, "{} of {}", self.name, self.of),
        }
    }
}

/// Returns the values of equal parts in one text, with their numbers if they differ: `7 × 400 Gb/s, 1 × 200 Gb/s`.
pub(crate) fn counted(values: impl IntoIterator<Item = String>) -> Option<String> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        *numbers.entry(value).or_default() += 1;
    }
    let mut numbers: Vec<_> = numbers.into_iter().collect();
    if let [(only, _)] = &numbers[..] {
        return Some(only.clone());
    }
    numbers.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let texts: Vec<_> = numbers.iter().map(|(value, number)| format!("{number} × {value}")).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted() {
        let values = |texts: &[&str]| counted(texts.iter().map(|text| (*text).to_owned()));
        assert_eq!(values(&["a", "b", "b"]).as_deref(), Some("2 × b, 1 × a"));
        assert_eq!(values(&["a", "a"]).as_deref(), Some("a"));
        assert_eq!(values(&[]), None);
    }
}
