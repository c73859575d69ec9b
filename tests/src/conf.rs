//! Reads the example files of `conf/`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// Returns the path of a file below `conf/`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf").join(name)
}

/// Returns the text of a file below `conf/`.
///
/// # Panics
/// If it cannot be read.
pub fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("conf/{name}: {e}"))
}

/// Returns the documents of a YAML file.
///
/// # Panics
/// If it cannot be read.
pub fn yaml(name: &str) -> Vec<Value> {
    yaml::documents(&text(name)).unwrap_or_else(|e| panic!("conf/{name}: {e}"))
}

/// Returns the only document of a file with this `kind`.
///
/// # Panics
/// If there is not exactly one.
pub fn object(name: &str, kind: &str) -> Value {
    let mut found: Vec<Value> = yaml(name).into_iter().filter(|object| object["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "objects of kind {kind} in conf/{name}");
    found.remove(0)
}

/// The configuration of a network.
#[derive(Debug, Clone)]
pub struct NetworkConf {
    /// Path of the file.
    pub path: PathBuf,
    /// The configuration list or the single configuration.
    pub network: Value,
}

/// Returns the files of `conf/` whose names end with one of `ends`, at any depth, sorted.
///
/// # Panics
/// If there is none.
pub fn files(ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&path(""), ends, &mut found);
    found.sort();
    assert!(!found.is_empty(), "conf/ has no file that ends with {ends:?}");
    found
}

fn collect(dir: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, ends, found);
        } else if ends.iter().any(|end| path.to_str().unwrap().ends_with(end)) {
            found.push(path);
        }
    }
}

/// Returns the configurations of networks: `*.conflist`, and `spec.config` of NetworkAttachmentDefinitions.
///
/// # Panics
/// If one is not JSON.
pub fn networks() -> Vec<NetworkConf> {
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let lists = files(&[".conflist"]).into_iter().map(|path| (read(&path), path));
    let nads = files(&[".nad.yaml"]).into_iter().map(|path| (config_of(&read(&path)), path));
    let parse = |(text, path): (String, PathBuf)| {
        let network = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        NetworkConf { path, network }
    };
    lists.chain(nads).map(parse).collect()
}

/// Returns the examples of the plugins' pages, `plugins/*/*/README.md`: their JSON blocks.
///
/// # Panics
/// If one is not JSON, or a page has none.
pub fn page_examples() -> Vec<NetworkConf> {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
    let mut pages = Vec::new();
    collect(&plugins, &["README.md"], &mut pages);
    pages.sort();
    let blocks = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let blocks: Vec<_> =
            text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert!(!blocks.is_empty(), "{}", path.display());
        let networks: Vec<Value> =
            blocks.into_iter().map(|block| serde_json::from_str(block).unwrap()).collect();
        networks.into_iter().map(move |network| NetworkConf { path: path.clone(), network })
    };
    let examples: Vec<_> = pages.into_iter().flat_map(blocks).collect();
    assert!(examples.len() >= 7, "{examples:?}");
    examples
}

/// Returns the text of `spec.config`.
fn config_of(nad: &str) -> String {
    let documents = yaml::documents(nad).unwrap();
    let [nad] = documents.as_slice() else { panic!("one document: {documents:?}") };
    assert_eq!(nad["kind"], "NetworkAttachmentDefinition");
    nad["spec"]["config"].as_str().unwrap().to_owned()
}

/// Returns the configuration of each plugin of a network, as a runtime passes it.
pub fn plugins(network: &Value) -> Vec<Value> {
    let list = network["plugins"].as_array().cloned().unwrap_or_else(|| vec![network.clone()]);
    let complete = |mut plugin: Value| {
        plugin["name"] = network["name"].clone();
        plugin["cniVersion"] = network["cniVersion"].clone();
        plugin
    };
    list.into_iter().map(complete).collect()
}

/// Copies the files of `conf/pools` to a place where a network may have them: `pools` in a directory of Silkrail. Returns its path.
///
/// # Panics
/// If that fails.
pub fn copy_pools(directory: &Path) -> PathBuf {
    let to = directory.join("pools");
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(path("pools")).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
    }
    to
}

/// Returns the pools of `conf/pools` as YAML documents.
pub fn pools() -> Vec<Value> {
    let files = files(&[".yaml"]).into_iter().filter(|path| path.parent().unwrap().ends_with("pools"));
    files.flat_map(|path| yaml::documents(&fs::read_to_string(path).unwrap()).unwrap()).collect()
}
