//! YAML text as JSON values.
//!
//! The parser returns events and does not recurse. This module builds values from them with an explicit stack and counts
//! them, so that neither deep nesting nor nested aliases can exhaust memory.

#![forbid(unsafe_code)]

mod error;
mod lines;
pub mod serde_errors;

use std::{borrow::Cow, collections::HashMap, mem};

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value};

pub use error::InvalidYaml;
use error::{MAX_DEPTH, MAX_VALUES};
pub use lines::{line_of, lines};

/// Parses all documents of a text. Empty documents are skipped.
///
/// # Errors
/// [`InvalidYaml`]: the text is not valid YAML, or exceeds the limits.
pub fn documents(text: &str) -> Result<Vec<Value>, InvalidYaml> {
    let mut parser = Parser::new_from_str(text);
    let mut composer = Composer::default();
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| InvalidYaml::Syntax {
            line: error.marker().line(),
            info: error.info().to_owned(),
        })?;
        composer.line = span.start.line();
        composer.take(event)?;
    }
    Ok(composer.documents)
}

/// A list or mapping that is not complete yet.
struct OpenCollection {
    anchor: usize,
    node: OpenNode,
    /// The number of values so far, including itself.
    size: usize,
}

enum OpenNode {
    List(Vec<Value>),
    /// The second field is the key whose value follows.
    Mapping(Map<String, Value>, Option<String>),
}

#[derive(Default)]
struct Composer {
    documents: Vec<Value>,
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, (Value, usize)>,
    values: usize,
    line: usize,
}

impl Composer {
    fn take(&mut self, event: Event<'_>) -> Result<(), InvalidYaml> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let size = 1 + text.len() / 32;
                self.add(scalar(text, style, tag.as_deref()), anchor, size)
            }
            Event::Alias(anchor) => {
                let (_, size) = self.anchors.get(&anchor).ok_or(InvalidYaml::Alias { line: self.line })?;
                let size = *size;
                self.count(size)?; // before the copy is made
                let value = self.anchors.get(&anchor).map(|(value, _)| value.clone()).unwrap_or_default();
                self.place(value, size)
            }
            Event::SequenceStart(anchor, _) => self.start(anchor, OpenNode::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.start(anchor, OpenNode::Mapping(Map::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::DocumentEnd => {
                self.anchors.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => Ok(()),
        }
    }

    fn start(&mut self, anchor: usize, node: OpenNode) -> Result<(), InvalidYaml> {
        if self.open.len() == MAX_DEPTH {
            return Err(InvalidYaml::TooLarge { line: self.line });
        }
        self.open.push(OpenCollection { anchor, node, size: 0 });
        Ok(())
    }

    fn end(&mut self) -> Result<(), InvalidYaml> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let value = match open.node {
            OpenNode::List(items) => Value::Array(items),
            OpenNode::Mapping(map, _) => Value::Object(map),
        };
        self.count(1)?;
        self.remember(&value, open.anchor, open.size + 1)?;
        self.place(value, open.size + 1)
    }

    fn add(&mut self, value: Value, anchor: usize, size: usize) -> Result<(), InvalidYaml> {
        self.count(size)?;
        self.remember(&value, anchor, size)?;
        self.place(value, size)
    }

    fn count(&mut self, size: usize) -> Result<(), InvalidYaml> {
        self.values = self.values.saturating_add(size);
        if self.values > MAX_VALUES { Err(InvalidYaml::TooLarge { line: self.line }) } else { Ok(()) }
    }

    /// Stores a copy for aliases; anchor 0 means none. The copy counts too, because anchors can be nested.
    fn remember(&mut self, value: &Value, anchor: usize, size: usize) -> Result<(), InvalidYaml> {
        if anchor != 0 {
            self.count(size)?;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        Ok(())
    }

    /// Adds a complete value to the innermost open list or mapping, or to the documents.
    fn place(&mut self, value: Value, size: usize) -> Result<(), InvalidYaml> {
        let line = self.line;
        let Some(open) = self.open.last_mut() else {
            if !value.is_null() {
                self.documents.push(value);
            }
            return Ok(());
        };
        open.size += size;
        match &mut open.node {
            OpenNode::List(items) => items.push(value),
            OpenNode::Mapping(map, key) => match mem::take(key) {
                None => *key = Some(key_text(value).ok_or(InvalidYaml::Key { line })?),
                Some(key) if map.contains_key(&key) => return Err(InvalidYaml::DuplicateKey { line, key }),
                Some(key) => {
                    map.insert(key, value);
                }
            },
        }
        Ok(())
    }
}

fn key_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the value of a scalar by the core schema of YAML 1.2.
fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return Value::String(text.into_owned());
    }
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        // Only JSON numbers: other notations of YAML (0x10, .5, inf) are not used in pools.
        plain => serde_json::from_str(plain).map_or_else(|_| Value::String(text.into_owned()), Value::Number),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_is_equal_to_its_json_form() {
        let text = "# a pool\nkind: SpiderIPPool\nspec:\n  ips: [10.0.0.1, \"10.0.0.3\"]\n  default: true\n  vlan: 0\n  \
                    gateway:\n  routes:\n  - dst: 10.0.0.0/8\n    gw: '10.0.0.254'\n---\n---\nplain\n...\n";
        let spec = json!({"ips": ["10.0.0.1", "10.0.0.3"], "default": true, "vlan": 0, "gateway": null,
            "routes": [{"dst": "10.0.0.0/8", "gw": "10.0.0.254"}]});
        assert_eq!(documents(text).unwrap(), [json!({"kind": "SpiderIPPool", "spec": spec}), json!("plain")]);
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        let text = "[~, 'true', 7, -7, 1.5, 1e3, !!str 7, inf, fd00::1, 10.0.0.1-10.0.0.9, yes, 0x10]";
        let value = json!([
            null,
            "true",
            7,
            -7,
            1.5,
            1000.0,
            "7",
            "inf",
            "fd00::1",
            "10.0.0.1-10.0.0.9",
            "yes",
            "0x10"
        ]);
        assert_eq!(documents(text).unwrap(), [value]);
        let text =
            "[Null, NULL, True, TRUE, False, FALSE, \"7\", 'null', \"\", nULL]\n--- |\n  7\n--- >-\n  true\n";
        let value = json!([null, null, true, true, false, false, "7", "null", "", "nULL"]);
        assert_eq!(documents(text).unwrap(), [value, json!("7\n"), json!("true")]);
    }

    #[test]
    fn anchors_are_resolved() {
        assert_eq!(documents("a: &x [1]\nb: *x").unwrap(), [json!({"a": [1], "b": [1]})]);
        let several = "a: &x 1\nb: &y {c: *x}\nd: [*y, *x]\ne: &x 2\nf: *x";
        let value = json!({"a": 1, "b": {"c": 1}, "d": [{"c": 1}, 1], "e": 2, "f": 2});
        assert_eq!(documents(several).unwrap(), [value]);
        assert!(matches!(documents("a: &x [*x]"), Err(InvalidYaml::Alias { line: 1 })));
        assert!(documents("a: &x 1\n---\nb: *x").is_err(), "anchors end with their document");
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = "l0: &l0 [lol, lol]\n".to_owned();
        for level in 1..60 {
            text += &format!("l{level}: &l{level} [{}]\n", vec![format!("*l{}", level - 1); 9].join(", "));
        }
        assert!(matches!(documents(&text), Err(InvalidYaml::TooLarge { .. })));
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(100_000), "*a,".repeat(1000));
        assert!(matches!(documents(&long), Err(InvalidYaml::TooLarge { .. })));
    }

    #[test]
    fn deep_nesting_is_refused() {
        for text in ["[".repeat(100_000), "- ".repeat(100_000), "? ".repeat(100_000), "{a: ".repeat(100_000)]
        {
            assert!(documents(&text).is_err());
        }
    }

    #[test]
    fn a_duplicate_key_is_refused() {
        let error = documents("a: 1\na: 2").unwrap_err();
        assert_eq!(error.to_string(), "line 2: duplicate key \"a\"; remove one");
        assert!(matches!(documents("[1]: 2"), Err(InvalidYaml::Key { line: 1 })));
        assert!(matches!(documents("~: 2"), Err(InvalidYaml::Key { line: 1 })));
        let numbers = documents("{1: a, true: b, '~': {1: c}}").unwrap();
        assert_eq!(numbers, [json!({"1": "a", "true": "b", "~": {"1": "c"}})]);
        assert!(documents("1: a\n'1': b").is_err(), "the two are the same key");
    }

    #[test]
    fn syntax_errors_contain_the_line() {
        assert!(documents("a: 1\nb: [1\nc: }").unwrap_err().to_string().starts_with("line "));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[-\\[\\]{}:,&*!|>'\"%@`#? \na-c0-9]{0,60}") {
            let _ = documents(&text);
        }
    }
}
