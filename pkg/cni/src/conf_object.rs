//! Reading a JSON object as the Go plugins do, with errors that name key and value.

use serde_json::{Map, Value};

use crate::Error;

/// A JSON object of a configuration.
///
/// Users rely, mostly without knowing, on the leniency of Go's decoder: a key is found in any letter case
/// (`"MTU"`, `"RuntimeConfig"`), `null` is the same as absent, and unknown keys are ignored.
#[derive(Debug, Clone)]
pub struct ConfObject<'a> {
    object: &'a Map<String, Value>,
    at: String,
}

impl<'a> ConfObject<'a> {
    /// The fields of `object`, which stands at the key path `at` (empty for the whole configuration).
    pub fn new(object: &'a Map<String, Value>, at: impl Into<String>) -> Self {
        Self { object, at: at.into() }
    }

    /// The value of `key`, unless it is absent or `null`.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        let exact = self.object.get(key);
        let found = exact.or_else(|| {
            self.object.iter().rev().find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, value)| value)
        });
        found.filter(|value| !value.is_null())
    }

    /// Whether `key` is there, be it as `null`.
    pub fn has(&self, key: &str) -> bool {
        self.object.keys().any(|k| k.eq_ignore_ascii_case(key))
    }

    /// The text of `key`; an empty text counts as absent.
    ///
    /// # Errors
    /// Any other kind of value.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| self.wrong(key, "a text", value))?;
        Ok((!text.is_empty()).then_some(text))
    }

    /// The whole number of `key`.
    ///
    /// # Errors
    /// Any other kind of value.
    pub fn integer(&self, key: &str) -> Result<Option<i64>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.wrong(key, "a whole number", value))
    }

    /// The truth value of `key`.
    ///
    /// # Errors
    /// Any other kind of value.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, "true or false", value))
    }

    /// The texts of the list at `key`; absent is an empty list.
    ///
    /// # Errors
    /// A value that is no list of texts.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Error> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let texts: Option<Vec<String>> = value
            .as_array()
            .and_then(|list| list.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        texts.ok_or_else(|| self.wrong(key, "a list of texts", value))
    }

    /// The list at `key`; absent is an empty list.
    ///
    /// # Errors
    /// Any other kind of value.
    pub fn list(&self, key: &str) -> Result<&'a [Value], Error> {
        let Some(value) = self.value(key) else { return Ok(&[]) };
        value.as_array().map(Vec::as_slice).ok_or_else(|| self.wrong(key, "a list", value))
    }

    /// The fields of the object at `key`.
    ///
    /// # Errors
    /// Any other kind of value.
    pub fn object(&self, key: &str) -> Result<Option<ConfObject<'a>>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let object = value.as_object().ok_or_else(|| self.wrong(key, "an object", value))?;
        Ok(Some(ConfObject::new(object, self.path(key))))
    }

    /// The error that the value of `key` is not what was expected.
    pub fn wrong(&self, key: &str, expected: &str, found: impl std::fmt::Display) -> Error {
        Error::config(format!("{}: expected {expected}, found {found}", self.path(key)))
    }

    /// The key as a path from the configuration's root, like `ipam.pools`.
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
    }

    #[test]
    fn null_and_the_empty_text_are_absent() {
        check(&json!({"a": null, "b": ""}), |fields| {
            assert_eq!(fields.flag("a").unwrap(), None);
            assert_eq!(fields.text("b").unwrap(), None);
        });
    }

    #[test]
    fn a_wrong_value_is_named_with_its_path() {
        check(&json!({"ipam": {"mtu": "big"}}), |fields| {
            let error = fields.object("ipam").unwrap().unwrap().integer("mtu").unwrap_err();
            assert_eq!(error.msg, "ipam.mtu: expected a whole number, found \"big\"");
            assert_eq!(error.code.0, 7);
        });
    }
}
