//! Files with Kubernetes objects.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use serde_json::Value;

use crate::exit::CommandError;

/// Returns the text of a file, or of the standard input for `-`.
pub(crate) fn text(path: &Path) -> Result<String, CommandError> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|source| CommandError::Input { path: path.to_owned(), source })
}

/// Returns the objects of a kind in a file with YAML or JSON, also those of lists.
pub(crate) fn objects(path: &Path, kind: &str) -> Result<Vec<Value>, CommandError> {
    let invalid = |what: String| CommandError::Network { path: path.to_owned(), what };
    // JSON is YAML, but the parser of JSON has no limit for the number of values.
    let text = text(path)?;
    let documents = match serde_json::from_str(&text) {
        Ok(value) => vec![value],
        Err(_) => yaml::documents(&text).map_err(|error| invalid(error.to_string()))?,
    };
    let mut objects = Vec::new();
    for document in documents {
        match document.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(document),
        }
    }
    objects.retain(|object| object["kind"] == kind);
    match objects.is_empty() {
        true => Err(invalid(format!("there is no {kind}"))),
        false => Ok(objects),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_kind_are_found_in_documents_and_lists() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let names = |text: &str| {
            fs::write(file.path(), text).unwrap();
            let objects = objects(file.path(), "Pool").map_err(|error| error.to_string())?;
            Ok::<_, String>(
                objects.iter().map(|object| object["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>(),
            )
        };
        let yaml = "kind: Pool\nname: a\n---\nkind: Other\nname: b\n---\nkind: List\nitems:\n  - {kind: Other, name: c}\n  \
                    - {kind: Pool, name: d}\n  - {kind: Pool, name: e}\n---\nkind: Pool\nname: f\n";
        assert_eq!(names(yaml).unwrap(), ["a", "d", "e", "f"]);
        assert_eq!(names(r#"{"kind": "List", "items": [{"kind": "Pool", "name": "a"}]}"#).unwrap(), ["a"]);
        for none in ["", "kind: Other", "kind: List\nitems: []\n"] {
            assert!(names(none).unwrap_err().ends_with("there is no Pool"), "{none}");
        }
        assert!(names("a: [").is_err() && objects(Path::new("/none"), "Pool").is_err());
    }
}
