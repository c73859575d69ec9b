//! Objects as YAML for people: keys in alphabetical order, strings quoted only if they need it.

use serde_json::Value;

/// Returns the objects as documents of one file.
pub(super) fn documents(objects: &[Value]) -> String {
    let texts: Vec<String> = objects
        .iter()
        .map(|object| {
            let mut text = String::new();
            block(object, 0, &mut text);
            text
        })
        .collect();
    texts.join("---\n")
}

/// Appends a mapping or a list, each line indented by `depth` spaces.
fn block(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                text.push_str(&format!("{:depth$}{}:", "", scalar(key)));
                nested(value, depth + 2, text);
            }
        }
        Value::Array(list) => {
            for item in list {
                text.push_str(&format!("{:depth$}-", ""));
                let mut inner = String::new();
                nested(item, depth + 2, &mut inner);
                // The first line of a mapping follows the dash.
                let indent = format!("\n{:1$}", "", depth + 2);
                match inner.strip_prefix(&indent) {
                    Some(rest) if item.is_object() => text.push_str(&format!(" {rest}")),
                    _ => text.push_str(&inner),
                }
            }
        }
        other => text.push_str(&format!("{:depth$}{}\n", "", plain(other))),
    }
}

/// Appends the value of a key or the item of a list, which starts on the same line if it is a scalar.
fn nested(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            block(value, depth, text);
        }
        Value::Array(list) if !list.is_empty() => {
            text.push('\n');
            block(value, depth, text);
        }
        Value::String(string) if string.contains('\n') => {
            text.push_str(" |-\n");
            string.lines().for_each(|line| text.push_str(&format!("{:depth$}{line}\n", "")));
        }
        other => text.push_str(&format!(" {}\n", plain(other))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(string) => scalar(string),
        other => other.to_string(),
    }
}

/// Returns a string without quotes if every version of YAML reads it as that string.
fn scalar(string: &str) -> String {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = string.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && string.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c))
        && !words.contains(&string.to_ascii_lowercase().as_str());
    if is_plain { string.to_owned() } else { Value::from(string).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_read_back_unchanged() {
        let objects = [
            json!({
                "kind": "Pod", "empty": {}, "none": [], "number": 8, "yes": "no", "text": "a: b # c", "long": "one\n  two\nthree",
                "list": ["-x", "A=1", {"name": "a", "items": [{"key": "b"}, "c"]}, ["nested", ["d"]], "x\ny"],
                "spidernet.io/rdma": "1", "quoted": "say \"hi\" \\ $x", "version": "1.5", "bool": true, "null": null,
            }),
            json!({"kind": "Service"}),
        ];
        let text = documents(&objects);
        assert_eq!(yaml::documents(&text).unwrap(), objects, "{text}");
    }

    #[test]
    fn a_string_that_a_version_of_yaml_reads_as_another_value_is_quoted() {
        for word in ["yes", "Yes", "NO", "on", "Off", "True", "null", "y", "1.5", "-x", "a: b", ""] {
            assert!(scalar(word).starts_with('"'), "{word}");
        }
        assert_eq!(
            ["/dev/shm", "yesterday", "rdma/hca_1"].map(scalar),
            ["/dev/shm", "yesterday", "rdma/hca_1"]
        );
    }

    #[test]
    fn the_text_is_as_people_write_it() {
        let text = documents(&[
            json!({"spec": {"containers": [{"args": ["-x"], "name": "worker"}], "replicas": 1}}),
        ]);
        assert_eq!(
            text,
            "spec:\n  containers:\n    - args:\n        - \"-x\"\n      name: worker\n  replicas: 1\n"
        );
    }
}
