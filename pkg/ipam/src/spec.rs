//! Reads the keys of a JSON object. Errors contain the key.

use std::str::FromStr;

use serde_json::{Map, Value};

use crate::{InvalidPool, InvalidValue};

/// A JSON object whose keys are read one by one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpecReader<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> SpecReader<'a> {
    /// Returns the value of a key. `null` is the same as an absent key.
    pub(crate) fn value(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Returns a string. An empty string is the same as an absent key.
    pub(crate) fn text(self, key: &str) -> Result<Option<&'a str>, InvalidPool> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(other) => Err(mismatch(key, "a string", other)),
        }
    }

    /// Returns a string parsed as a `T`. `expected` describes the format for the error.
    pub(crate) fn parsed<T: FromStr>(
        self,
        key: &str,
        expected: &'static str,
    ) -> Result<Option<T>, InvalidPool> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| mismatch(key, expected, text))
    }

    /// Returns a Boolean; `false` if the key is absent.
    pub(crate) fn flag(self, key: &str) -> Result<bool, InvalidPool> {
        match self.value(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(mismatch(key, "true or false", other)),
        }
    }

    /// Returns a list; empty if the key is absent.
    pub(crate) fn list(self, key: &str) -> Result<&'a [Value], InvalidPool> {
        match self.value(key) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(mismatch(key, "a list", other)),
        }
    }

    /// Returns a list of strings; empty if the key is absent.
    pub(crate) fn texts(self, key: &str) -> Result<Vec<&'a str>, InvalidPool> {
        let text = |(index, item): (usize, &'a Value)| {
            item.as_str().ok_or_else(|| mismatch(format!("{key}[{index}]"), "a string", item))
        };
        self.list(key)?.iter().enumerate().map(text).collect()
    }

    /// Returns an object; `None` if the key is absent.
    pub(crate) fn object(self, key: &str) -> Result<Option<SpecReader<'a>>, InvalidPool> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(SpecReader(map))),
            Some(other) => Err(mismatch(key, "an object", other)),
        }
    }
}

/// Returns the error `<key>: expected <expected>, found <found>`.
pub(crate) fn mismatch(key: impl Into<String>, expected: &'static str, found: impl ToString) -> InvalidPool {
    InvalidValue::Type { expected, found: found.to_string() }.at(key)
}
