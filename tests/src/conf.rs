//! Files of `conf/`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// The path of a file below `conf/`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf").join(name)
}

/// A file's text.
///
/// # Panics
/// If it cannot be read.
pub fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("conf/{name}: {e}"))
}

/// The documents of a YAML file.
///
/// # Panics
/// If it cannot be read.
pub fn yaml(name: &str) -> Vec<Value> {
    yaml::documents(&text(name)).unwrap_or_else(|e| panic!("conf/{name}: {e}"))
}

/// The one document of a file that has this kind.
///
/// # Panics
/// If there is none, or more.
pub fn object(name: &str, kind: &str) -> Value {
    let mut found: Vec<Value> = yaml(name).into_iter().filter(|object| object["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "objects of kind {kind} in conf/{name}");
    found.remove(0)
}
