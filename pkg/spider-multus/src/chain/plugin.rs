//! The configuration of a plugin.

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

/// The configuration of a plugin, whose keys keep their order: `type` is the first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plugin(Vec<(String, Value)>);

impl Plugin {
    pub(crate) fn new(kind: &str) -> Self {
        Self(vec![("type".to_owned(), kind.into())])
    }

    /// Adds a value.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.push((key.to_owned(), value.into()));
        self
    }

    /// Adds a value that is set.
    pub(crate) fn with_some(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds a value that is set and not zero, which is the default of plugins.
    pub(crate) fn with_non_zero(self, key: &str, number: Option<u64>) -> Self {
        self.with_some(key, number.filter(|number| *number != 0))
    }

    /// Whether it is of a type.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.0.iter().any(|(key, value)| key == "type" && value == kind)
    }

    /// Parses a configuration in JSON.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut map: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("expected a mapping in JSON: {error}"))?;
        match map.remove("type") {
            Some(Value::String(kind)) if !kind.is_empty() => {
                let others = map.into_iter();
                Ok(Self(std::iter::once(("type".to_owned(), kind.into())).chain(others).collect()))
            }
            _ => Err(format!("type is missing in {text}")),
        }
    }
}

impl Serialize for Plugin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
