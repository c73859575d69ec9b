//! The values of a mapping, with their paths for errors.

use std::{collections::BTreeSet, fmt::Display};

use serde_json::{Map, Value};

use crate::InvalidDocument;

/// A mapping of a document.
pub(crate) struct Fields<'a> {
    /// The object that the mapping belongs to, for errors.
    pub(crate) object: &'a str,
    pub(crate) path: String,
    map: &'a Map<String, Value>,
    /// The keys that were read, so that others are found.
    read: BTreeSet<&'static str>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(object: &'a str, path: &str, map: &'a Map<String, Value>) -> Self {
        Self { object, path: path.to_owned(), map, read: BTreeSet::new() }
    }

    /// Returns an error about a key.
    pub(crate) fn invalid(&self, key: &str, what: impl Display) -> InvalidDocument {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        InvalidDocument::Value { object: self.object.to_owned(), path, what: what.to_string() }
    }

    /// Returns a value; `None` if it is absent or `null`.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.read.insert(key);
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn typed<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, InvalidDocument> {
        let Some(value) = self.value(key) else { return Ok(None) };
        convert(value)
            .map(Some)
            .ok_or_else(|| self.invalid(key, format!("expected {expected}, found {value}")))
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<&'a str>, InvalidDocument> {
        self.typed(key, "a string", Value::as_str)
    }

    /// Returns a text that must not be empty.
    pub(crate) fn required_text(&mut self, key: &'static str) -> Result<&'a str, InvalidDocument> {
        self.text(key)?.filter(|text| !text.is_empty()).ok_or_else(|| self.invalid(key, "it is missing"))
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, InvalidDocument> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// Returns a number from 0 to `largest`.
    pub(crate) fn number(&mut self, key: &'static str, largest: u64) -> Result<Option<u64>, InvalidDocument> {
        let expected = format!("a number from 0 to {largest}");
        self.typed(key, &expected, |value| value.as_u64().filter(|number| *number <= largest))
    }

    pub(crate) fn texts(&mut self, key: &'static str) -> Result<Vec<&'a str>, InvalidDocument> {
        let texts = self.typed(key, "a list of strings", |value| {
            value.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>()
        })?;
        Ok(texts.unwrap_or_default())
    }

    pub(crate) fn list(&mut self, key: &'static str) -> Result<&'a [Value], InvalidDocument> {
        Ok(self.typed(key, "a list", |value| value.as_array().map(Vec::as_slice))?.unwrap_or_default())
    }

    pub(crate) fn object(&mut self, key: &'static str) -> Result<Option<Fields<'a>>, InvalidDocument> {
        let map = self.typed(key, "a mapping", Value::as_object)?;
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Ok(map.map(|map| Fields::new(self.object, &path, map)))
    }

    /// Refuses keys that were not read: a mistyped one would be ignored.
    pub(crate) fn end(self) -> Result<(), InvalidDocument> {
        match self.map.keys().find(|key| !self.read.contains(key.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let known: Vec<_> = self.read.iter().copied().collect();
                Err(self.invalid(unknown, format!("unknown key, expected one of {}", known.join(", "))))
            }
        }
    }
}
