//! serde's texts in the words of a person who writes a file.

use serde_json::Value;

/// What kind of value it is.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "keys and values",
    }
}

/// What serde says is wrong, with what to write.
pub(crate) fn text(what: &str) -> String {
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
            format!("{number} is a number, and a text was expected: write it in quotes, '{number}'")
        }
        (Some(number), "u32") => format!("expected a number from 0 to {}, found {number}", u32::MAX),
        _ => format!("expected {}, found {}", wanted(expected), given(found)),
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.split_once(after).map(|(inner, _)| inner)
}

/// What a key that must be there is for.
fn meaning(key: &str) -> &'static str {
    match key {
        "vfs" => "how many VFs each PF should have, like `vfs: 8`",
        "match" => "which PFs are meant, like `match: {link: ens6f0np0}`",
        _ => "`silkrail apply --help` shows a node file",
    }
}

fn wanted(expected: &str) -> &str {
    match expected {
        "a string" => "a text",
        "u32" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        other => other,
    }
}

fn given(found: &str) -> &str {
    match found {
        "map" => "keys and values",
        "sequence" => "a list",
        "null" | "unit value" => "nothing",
        other => other.strip_prefix("string ").or(other.strip_prefix("boolean ")).unwrap_or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serdes_words_become_a_persons() {
        for (serde, ours) in [
            ("invalid type: string \"many\", expected u32", "expected a number, found \"many\""),
            ("invalid type: sequence, expected a boolean", "expected true or false, found a list"),
            ("invalid value: integer `-1`, expected u32", "expected a number from 0 to 4294967295, found -1"),
            ("invalid type: boolean `true`, expected a string", "expected a text, found `true`"),
            ("unknown variant `x`, expected `a` or `b`", "unknown value `x`, expected `a` or `b`"),
            ("something else", "something else"),
        ] {
            assert_eq!(text(serde), ours);
        }
    }
}
