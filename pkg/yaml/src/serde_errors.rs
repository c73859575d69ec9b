//! Rewrites serde's error texts for authors of YAML files.

use serde_json::Value;

/// Returns the kind of a value, for `expected X, found Y`.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Rewrites an error of serde. `meaning` tells what a missing key is, with an example.
pub fn text(what: &str, meaning: impl FnOnce(&str) -> &'static str) -> String {
    if let Some(key) = between(what, "missing field `", "`") {
        return format!("{key} is missing: {}", meaning(key));
    }
    if let Some(rest) = what.strip_prefix("unknown field ") {
        return format!("unknown key {rest}");
    }
    if let Some(rest) = what.strip_prefix("unknown variant ") {
        return format!("unknown value {rest}");
    }
    let Some((found, expected)) = ["invalid type: ", "invalid value: "]
        .iter()
        .find_map(|prefix| what.strip_prefix(prefix)?.split_once(", expected "))
    else {
        return what.to_owned();
    };
    match (between(found, "integer `", "`"), expected) {
        (Some(number), "a string") => {
            format!("expected a string, found the number {number}: write it in quotes, '{number}'")
        }
        (Some(number), "u32") => format!("expected a number from 0 to {}, found {number}", u32::MAX),
        _ => format!("expected {}, found {}", wanted(expected), given(found)),
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.split_once(after).map(|(inner, _)| inner)
}

fn wanted(expected: &str) -> &str {
    match expected {
        "u32" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        other => other,
    }
}

fn given(found: &str) -> &str {
    match found {
        "map" => "a mapping",
        "sequence" => "a list",
        "null" | "unit value" => "null",
        other => other.strip_prefix("string ").or(other.strip_prefix("boolean ")).unwrap_or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_serde_are_rewritten() {
        for (serde, ours) in [
            ("invalid type: string \"many\", expected u32", "expected a number, found \"many\""),
            ("invalid type: sequence, expected a boolean", "expected true or false, found a list"),
            ("invalid value: integer `-1`, expected u32", "expected a number from 0 to 4294967295, found -1"),
            ("invalid type: boolean `true`, expected a string", "expected a string, found `true`"),
            ("unknown variant `x`, expected `a` or `b`", "unknown value `x`, expected `a` or `b`"),
            ("unknown field `x`, expected `a`", "unknown key `x`, expected `a`"),
            ("missing field `name`", "name is missing: a name like name"),
            ("invalid type: map, expected a sequence", "expected a list, found a mapping"),
            ("invalid type: null, expected u32", "expected a number, found null"),
            ("invalid type: unit value, expected struct Pf", "expected struct Pf, found null"),
            (
                "invalid type: integer `7`, expected a string",
                "expected a string, found the number 7: write it in quotes, '7'",
            ),
            ("something else", "something else"),
        ] {
            let meaning = |key: &str| if key == "name" { "a name like name" } else { "" };
            assert_eq!(text(serde, meaning), ours);
        }
        let kinds = [Value::Null, 1.into(), true.into(), "".into(), Value::Array(vec![])];
        let expected = ["null", "a number", "true or false", "a string", "a list"];
        assert_eq!(kinds.each_ref().map(kind), expected);
    }
}
