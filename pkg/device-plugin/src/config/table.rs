//! A mapping in a configuration, read as Go reads it: the case of keys does not matter, and `null` is no value.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    str::FromStr,
};

use serde_json::{Map, Value};

use super::finding::Finding;

/// What was found, with the lines of all keys.
pub(super) struct Findings {
    lines: BTreeMap<String, usize>,
    list: Vec<Finding>,
}

/// A mapping whose keys are read one after the other.
pub(super) struct Table<'a> {
    path: String,
    object: &'a Map<String, Value>,
    read: BTreeSet<&'static str>,
    /// Keys that are not found although they have a value.
    hidden: BTreeSet<&'static str>,
    is_invalid: bool,
}

impl Findings {
    pub(super) fn new(lines: BTreeMap<String, usize>) -> Self {
        Self { lines, list: Vec::new() }
    }

    /// Adds a finding because of which a resource is not used.
    pub(super) fn refused(&mut self, path: &str, what: String) {
        self.add(path, what, true);
    }

    /// Adds a finding about a key that has no effect.
    pub(super) fn ignored(&mut self, path: &str, what: String) {
        self.add(path, what, false);
    }

    fn add(&mut self, path: &str, what: String, is_refused: bool) {
        let line = self.lines.get(path).copied();
        self.list.push(Finding { line, path: path.to_owned(), what, is_refused });
    }

    /// Returns the findings in the order of their lines.
    pub(super) fn into_list(mut self) -> Vec<Finding> {
        self.list.sort_by_key(|finding| finding.line);
        self.list
    }
}

impl<'a> Table<'a> {
    pub(super) fn new(path: &str, object: &'a Map<String, Value>) -> Self {
        Self {
            path: path.to_owned(),
            object,
            read: BTreeSet::new(),
            hidden: BTreeSet::new(),
            is_invalid: false,
        }
    }

    /// Returns the path of the mapping.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether a key has a value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Returns whether all values so far are valid.
    pub(super) fn is_valid(&self) -> bool {
        !self.is_invalid
    }

    /// Accepts a key that has no effect.
    pub(super) fn ignore(&mut self, key: &'static str) {
        self.read.insert(key);
    }

    /// Reports a key that has no effect, with the reason.
    pub(super) fn without_effect(&mut self, key: &'static str, why: &str, findings: &mut Findings) {
        if let Some((name, _)) = self.find(key) {
            findings.ignored(&join(&self.path, name), why.to_owned());
            self.hidden.insert(key);
        }
    }

    /// Refuses the resource if a key has a value other than `false` or an empty one.
    pub(super) fn refuse(&mut self, key: &'static str, why: &str, findings: &mut Findings) {
        let Some((path, value)) = self.take(key) else { return };
        let is_empty = value.as_bool() == Some(false)
            || value.as_str() == Some("")
            || value.as_array().is_some_and(Vec::is_empty);
        if !is_empty {
            self.invalid(&path, why.to_owned(), findings);
        }
    }

    /// Returns a text.
    pub(super) fn text(&mut self, key: &'static str, findings: &mut Findings) -> Option<&'a str> {
        let (path, value) = self.take(key)?;
        value.as_str().or_else(|| self.expected(&path, "a string", value, findings))
    }

    /// Returns a number from 0.
    pub(super) fn number(&mut self, key: &'static str, findings: &mut Findings) -> Option<u32> {
        let (path, value) = self.take(key)?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.or_else(|| self.expected(&path, "a number from 0", value, findings))
    }

    /// Returns whether a flag is `true`.
    pub(super) fn flag(&mut self, key: &'static str, findings: &mut Findings) -> bool {
        let Some((path, value)) = self.take(key) else { return false };
        value.as_bool().or_else(|| self.expected(&path, "true or false", value, findings)).unwrap_or(false)
    }

    /// Returns a list of texts or numbers, parsed. A malformed text is left out, unless all are.
    pub(super) fn list<T: FromStr<Err: Display>>(
        &mut self,
        key: &'static str,
        findings: &mut Findings,
    ) -> Vec<T> {
        let Some((path, value)) = self.take(key) else { return Vec::new() };
        let Some(items) = value.as_array() else {
            return self.expected(&path, "a list", value, findings).unwrap_or_default();
        };
        let (mut list, mut malformed) = (Vec::new(), Vec::new());
        for (number, item) in items.iter().enumerate() {
            let path = format!("{path}[{number}]");
            let text = match item {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                other => {
                    self.expected::<()>(&path, "a string", other, findings);
                    continue;
                }
            };
            match text.parse() {
                Ok(item) => list.push(item),
                Err(error) => malformed.push((path, T::Err::to_string(&error))),
            }
        }
        // As in Go, the other items of the list are used. Without one, the list would match everything.
        for (path, what) in malformed {
            if list.is_empty() { self.invalid(&path, what, findings) } else { findings.ignored(&path, what) }
        }
        list
    }

    /// Returns the mapping at a key.
    pub(super) fn object(
        &mut self,
        key: &'static str,
        findings: &mut Findings,
    ) -> Option<&'a Map<String, Value>> {
        let (path, value) = self.take(key)?;
        value.as_object().or_else(|| self.expected(&path, "a mapping", value, findings))
    }

    /// Returns the mappings of a list, or the only one that is in place of a list.
    pub(super) fn tables(&mut self, key: &'static str, findings: &mut Findings) -> Vec<Table<'a>> {
        let Some((path, value)) = self.take(key) else { return Vec::new() };
        let items = match value {
            Value::Array(items) => {
                items.iter().enumerate().map(|(n, item)| (format!("{path}[{n}]"), item)).collect()
            }
            Value::Object(_) => vec![(path, value)],
            _ => return self.expected(&path, "a list of mappings", value, findings).unwrap_or_default(),
        };
        let mut tables = Vec::new();
        for (path, item) in items {
            match item.as_object() {
                Some(object) => tables.push(Table::new(&path, object)),
                None => {
                    self.expected::<()>(&path, "a mapping", item, findings);
                }
            }
        }
        tables
    }

    /// Reports keys that were not read and have a value. Returns whether all values are valid.
    pub(super) fn end(self, findings: &mut Findings) -> bool {
        for (key, value) in self.object {
            // sriov-network-operator writes SelectorObjs without a value.
            if !value.is_null() && !self.read.iter().any(|read| read.eq_ignore_ascii_case(key)) {
                let known: Vec<_> = self.read.iter().copied().collect();
                let what = format!("unknown key, expected one of {}", known.join(", "));
                findings.ignored(&join(&self.path, key), what);
            }
        }
        !self.is_invalid
    }

    /// Reports an invalid value.
    pub(super) fn invalid(&mut self, path: &str, what: String, findings: &mut Findings) {
        self.is_invalid = true;
        findings.refused(path, what);
    }

    fn expected<T>(
        &mut self,
        path: &str,
        expected: &str,
        found: &Value,
        findings: &mut Findings,
    ) -> Option<T> {
        self.invalid(path, format!("expected {expected}, found {found}"), findings);
        None
    }

    /// Returns a value with its path.
    pub(super) fn take(&mut self, key: &'static str) -> Option<(String, &'a Value)> {
        self.read.insert(key);
        self.find(key).map(|(name, value)| (join(&self.path, name), value))
    }

    fn find(&self, key: &str) -> Option<(&'a str, &'a Value)> {
        if self.hidden.contains(key) {
            return None;
        }
        let exact = self.object.get_key_value(key);
        let found =
            exact.or_else(|| self.object.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(key)));
        found.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.as_str(), value))
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
