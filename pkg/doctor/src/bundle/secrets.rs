//! Removes credentials from every text of a bundle, with or without pseudonyms.
//!
//! The first line of defence is that files which may contain secrets are not read at all ([`super::collect`]). This is the
//! second one, for secrets in unexpected places. A secret is recognized by its key ([`key`]), in which case its value is
//! removed regardless of its form: a word, a list, the following lines ([`value`]); or by its format ([`token`]). If the end
//! of a secret is ambiguous, more text is removed rather than less.

mod key;
mod lines;
mod pattern;
mod redacted;
mod token;
mod value;

#[cfg(test)]
mod shapes;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::redacted::REDACTED;

#[cfg(test)]
pub(super) use self::shapes::SHAPES;

/// Returns the text without secrets. JSON is parsed, also if each line is a separate document, as in journals.
pub(super) fn without(text: &str) -> String {
    if let Some(mut value) = json(text) {
        clean(&mut value);
        // Keep the layout: pretty-printed, or in one line.
        return if text.trim().contains('\n') { format!("{value:#}\n") } else { format!("{value}\n") };
    }
    let Some(lines) = text.lines().map(json).collect::<Option<Vec<_>>>().filter(|lines| !lines.is_empty())
    else {
        return without_shapes(text);
    };
    lines
        .into_iter()
        .map(|mut value| {
            clean(&mut value);
            format!("{value}\n")
        })
        .collect()
}

/// Parses a JSON object or array.
fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())
}

/// Removes secrets from a value, including from JSON in its strings.
pub(super) fn clean(value: &mut Value) {
    match value {
        Value::String(text) => {
            *text = match json(text) {
                Some(mut inner) => {
                    clean(&mut inner);
                    inner.to_string()
                }
                None => without_shapes(text),
            }
        }
        Value::Array(items) => {
            clean_arguments(items);
            items.iter_mut().for_each(clean);
        }
        Value::Object(fields) => {
            let (names_one, is_one) =
                (names_a_secret(fields), fields.get("kind").is_some_and(|kind| kind == "Secret"));
            for (name, mut field) in std::mem::take(fields) {
                let is_secret = key::is_secret(&name)
                    || names_one && key::is_value(&name)
                    || is_one && key::is_data(&name);
                if is_secret && is_significant(&field) {
                    field = REDACTED.into();
                } else {
                    clean(&mut field);
                }
                fields.insert(without_shapes(&name), field);
            }
        }
        _ => {}
    }
}

/// Removes secrets from the arguments of a program: `["--token", "…"]`.
fn clean_arguments(items: &mut [Value]) {
    for at in 1..items.len() {
        let (before, from) = items.split_at_mut(at);
        let (Some(Value::String(option)), Some(Value::String(argument))) = (before.last(), from.first_mut())
        else {
            continue;
        };
        if key::is_option_of(option, argument) {
            *argument = REDACTED.into();
        }
    }
}

/// Returns whether the object is a secret environment variable of a container: `{"name": "PASSWORD", "value": …}`.
fn names_a_secret(fields: &serde_json::Map<String, Value>) -> bool {
    let is_one = |name: &str, field: &Value| key::is_name(name) && field.as_str().is_some_and(key::is_secret);
    fields.iter().any(|(name, field)| is_one(name, field))
}

/// Returns whether a value under the key of a secret may contain one, regardless of its type.
fn is_significant(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => !key::is_harmless(&number.to_string()),
        Value::String(text) => !key::is_harmless(text),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn without_shapes(text: &str) -> String {
    token::without_tokens(&value::without_values(&token::without_blocks(text)))
}
