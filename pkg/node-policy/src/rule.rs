//! The check of a policy's content, and the comparison of a value with the list of a rule.

use identifiers::pattern::matches;
use serde_json::{Map, Value};

use crate::{Resource, resource::ResourceUse};

/// The value of `allow` with which a rule allows everything.
pub(crate) const ALL: &str = "all";

/// A part of a policy that is not valid: its path, such as `rules[0].allow.vlans`, and what was expected.
pub(crate) type InvalidPart = (String, String);

/// Returns the rules of a policy, which are checked.
pub(crate) fn rules(document: &Value) -> Result<&[Value], InvalidPart> {
    let invalid = |path: &str, expected: &str| Err((path.to_owned(), expected.to_owned()));
    let Some(policy) = document.as_object() else {
        return invalid("", "expected the keys version and rules");
    };
    known(policy, "", &["version", "rules"])?;
    if policy.get("version") != Some(&Value::from(1)) {
        return invalid("version", "expected 1");
    }
    let Some(rules) = policy.get("rules").and_then(Value::as_array) else {
        return invalid("rules", "expected a list of rules");
    };
    for (number, rule) in rules.iter().enumerate() {
        let path = format!("rules[{number}]");
        check(rule, &path)?;
        if rules[..number].iter().any(|other| other["name"] == rule["name"]) {
            return Err((format!("{path}.name"), "two rules have this name".to_owned()));
        }
    }
    Ok(rules)
}

fn check(rule: &Value, path: &str) -> Result<(), InvalidPart> {
    let invalid = |key: &str, expected: &str| Err((format!("{path}{key}"), expected.to_owned()));
    let Some(keys) = rule.as_object() else { return invalid("", "expected a mapping") };
    known(keys, path, &["name", "namespaces", "allow", "deny"])?;
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
    if !keys.get("name").is_some_and(is_text) {
        return invalid(".name", "expected a name, which errors refer to");
    }
    if let Some(namespaces) = keys.get("namespaces") {
        list(namespaces, false).map_err(|what| (format!("{path}.namespaces"), what))?;
    }
    match (keys.get("allow"), keys.get("deny")) {
        (None, Some(reason)) if is_text(reason) => Ok(()),
        (None, Some(_)) => invalid(".deny", "expected the reason, as a text"),
        (Some(Value::String(all)), None) if all == ALL => Ok(()),
        (Some(Value::Object(lists)), None) => lists.iter().try_for_each(|(key, values)| {
            let at = |what: String| Err((format!("{path}.allow.{key}"), what));
            match Resource::of_key(key) {
                None => {
                    at(format!("unknown key; known keys: {}", Resource::ALL.map(Resource::key).join(", ")))
                }
                Some(resource) => list(values, resource.has_numbers()).or_else(at),
            }
        }),
        (Some(_), None) => invalid(".allow", "expected a mapping of lists, or all"),
        _ => invalid("", "expected either allow or deny"),
    }
}

fn known(object: &Map<String, Value>, path: &str, keys: &[&str]) -> Result<(), InvalidPart> {
    let unknown = object.keys().find(|key| !keys.contains(&key.as_str()));
    unknown.map_or(Ok(()), |key| {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        Err((path, format!("unknown key; known keys: {}", keys.join(", "))))
    })
}

/// Checks a list of patterns, or of ranges.
fn list(values: &Value, of_numbers: bool) -> Result<(), String> {
    let is_valid = |value: &Value| match value {
        Value::String(text) if of_numbers => text == "*" || range(text).is_some(),
        Value::String(text) => !text.is_empty() && matches(text, "").is_ok(),
        _ => of_numbers && value.as_u64().is_some_and(|number| u32::try_from(number).is_ok()),
    };
    let expected = if of_numbers {
        "numbers and ranges, such as [0, 100-199], or ['*']"
    } else {
        "texts, in which *, ? and [a-z] are wildcards, such as ['rail*']"
    };
    match values.as_array() {
        Some(list) if list.is_empty() => {
            Err(format!("the list is empty: expected {expected}, or no such key"))
        }
        Some(list) => match list.iter().find(|value| !is_valid(value)) {
            None => Ok(()),
            Some(found) => Err(format!("expected {expected}, found {found}")),
        },
        None => Err(format!("expected a list of {expected}, found {values}")),
    }
}

/// Parses `100-199` or `100`, in decimal digits, or hexadecimal ones after `0x`.
fn range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    number(low).zip(number(high)).filter(|(low, high)| low <= high)
}

/// Whether a rule is for the pods of a namespace; `None` is a container without one.
pub(crate) fn is_for(rule: &Value, namespace: Option<&str>) -> bool {
    match (rule.get("namespaces"), namespace) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(listed), Some(namespace)) => has(listed, |text| matches(text, namespace) == Ok(true)),
    }
}

/// Whether a list of a rule has one of the names of a use.
pub(crate) fn allows(listed: &Value, used: &ResourceUse) -> bool {
    used.names.iter().any(|name| {
        has(listed, |text| {
            let in_range = |(low, high): (u32, u32)| {
                used.resource.has_numbers() && name.parse().is_ok_and(|is: u32| low <= is && is <= high)
            };
            let is_match = || match used.resource.is_address() {
                true => matches(&text.to_ascii_lowercase(), &name.to_ascii_lowercase()),
                false => matches(text, name),
            };
            range(text).is_some_and(in_range) || is_match() == Ok(true)
        })
    })
}

fn has(listed: &Value, accepts: impl Fn(&str) -> bool) -> bool {
    let accepts = |value: &Value| match value {
        Value::String(text) => accepts(text),
        value => accepts(&value.to_string()),
    };
    listed.as_array().is_some_and(|list| list.iter().any(accepts))
}
