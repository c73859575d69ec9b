//! Reads a JSON object as the Go plugins do. Errors contain the key and the value.

use serde_json::{Map, Value};

use crate::Error;

/// A JSON object of a configuration.
///
/// The rules are those of Go's `encoding/json`, which existing configurations rely on: keys are matched
/// case-insensitively (`"MTU"`, `"RuntimeConfig"`), `null` is the same as absent, and unknown keys are ignored.
#[derive(Debug, Clone)]
pub struct ConfObject<'a> {
    object: &'a Map<String, Value>,
    at: String,
}

impl<'a> ConfObject<'a> {
    /// Wraps `object`, whose key path is `at` (empty for the whole configuration).
    pub fn new(object: &'a Map<String, Value>, at: impl Into<String>) -> Self {
        Self { object, at: at.into() }
    }

    /// Returns the value of `key`, unless it is absent or `null`. An exact match takes precedence.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        let exact = self.object.get(key);
        let found = exact.or_else(|| {
            self.object.iter().rev().find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, value)| value)
        });
        found.filter(|value| !value.is_null())
    }

    /// Whether `key` is present, even if its value is `null`.
    pub fn has(&self, key: &str) -> bool {
        self.object.keys().any(|k| k.eq_ignore_ascii_case(key))
    }

    /// Returns the string at `key`. An empty string counts as absent.
    ///
    /// # Errors
    /// If the value is not a string.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| self.invalid(key, "a string", value))?;
        Ok((!text.is_empty()).then_some(text))
    }

    /// Returns the integer at `key`.
    ///
    /// # Errors
    /// If the value is not an integer.
    pub fn integer(&self, key: &str) -> Result<Option<i64>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.invalid(key, "an integer", value))
    }

    /// Returns the Boolean at `key`.
    ///
    /// # Errors
    /// If the value is not a Boolean.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.invalid(key, "true or false", value))
    }

    /// Returns the strings of the list at `key`; an empty list if `key` is absent.
    ///
    /// # Errors
    /// If the value is not a list of strings.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Error> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let texts: Option<Vec<String>> = value
            .as_array()
            .and_then(|list| list.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        texts.ok_or_else(|| self.invalid(key, "a list of strings", value))
    }

    /// Returns the list at `key`; an empty list if `key` is absent.
    ///
    /// # Errors
    /// If the value is not a list.
    pub fn list(&self, key: &str) -> Result<&'a [Value], Error> {
        let Some(value) = self.value(key) else { return Ok(&[]) };
        value.as_array().map(Vec::as_slice).ok_or_else(|| self.invalid(key, "a list", value))
    }

    /// Returns the object at `key`.
    ///
    /// # Errors
    /// If the value is not an object.
    pub fn object(&self, key: &str) -> Result<Option<ConfObject<'a>>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let object = value.as_object().ok_or_else(|| self.invalid(key, "an object", value))?;
        Ok(Some(ConfObject::new(object, self.path(key))))
    }

    /// Returns the error `<key path>: expected <expected>, found <found>`.
    pub fn invalid(&self, key: &str, expected: &str, found: impl std::fmt::Display) -> Error {
        Error::config(format!("{}: expected {expected}, found {found}", self.path(key)))
    }

    /// Returns the key path from the root of the configuration, for example `ipam.pools`.
    pub fn path(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(object: &Value, with: impl FnOnce(ConfObject<'_>)) {
        with(ConfObject::new(object.as_object().unwrap(), ""));
    }

    #[test]
    fn case_019_keys_are_found_in_any_letter_case() {
        check(&json!({"MTU": 1400, "RuntimeConfig": {"Mac": "x"}}), |fields| {
            assert_eq!(fields.integer("mtu").unwrap(), Some(1400));
            let runtime = fields.object("runtimeConfig").unwrap().unwrap();
            assert_eq!(runtime.text("mac").unwrap(), Some("x"));
        });
    }

    #[test]
    fn an_exact_key_wins_over_another_letter_case() {
        check(&json!({"MTU": 1, "mtu": 2}), |fields| assert_eq!(fields.integer("mtu").unwrap(), Some(2)));
        check(&json!({"MTU": 1, "Mtu": 2}), |fields| {
            assert_eq!(fields.integer("mtu").unwrap(), Some(2), "the last one");
            assert!(fields.has("mTU") && !fields.has("mt"));
        });
    }

    #[test]
    fn null_and_the_empty_string_are_absent() {
        check(&json!({"a": null, "b": ""}), |fields| {
            assert!(fields.has("A"), "but it is present");
            assert_eq!(fields.flag("a").unwrap(), None);
            assert_eq!((fields.texts("a").unwrap().len(), fields.list("a").unwrap().len()), (0, 0));
            assert!(fields.object("a").unwrap().is_none());
            assert_eq!(fields.text("b").unwrap(), None);
        });
    }

    #[test]
    fn an_error_contains_the_key_path() {
        check(&json!({"ipam": {"mtu": "big"}}), |fields| {
            let error = fields.object("ipam").unwrap().unwrap().integer("mtu").unwrap_err();
            assert_eq!(error.msg, "ipam.mtu: expected an integer, found \"big\"");
            assert_eq!(error.code.0, 7);
        });
        check(&json!({"a": ["x", 1], "b": 1.5, "c": "true", "d": {}}), |fields| {
            for refused in [
                fields.texts("a").map(drop),
                fields.integer("b").map(drop),
                fields.flag("c").map(drop),
                fields.list("d").map(drop),
                fields.object("a").map(drop),
                fields.text("d").map(drop),
            ] {
                assert_eq!(refused.unwrap_err().code.0, 7);
            }
        });
    }
}
