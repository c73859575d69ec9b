//! All pools a node knows, from the plugin's configuration and from a directory.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    InvalidPool, InvalidYaml, Pool, PoolName, Problem, Range,
    document::{self, Object},
};

/// Pools in the order they were read, each name once.
#[derive(Debug, Clone, Default)]
pub struct Pools {
    entries: Vec<Entry>,
    reserved: Vec<Range>,
    ignored: Vec<Ignored>,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) pool: Pool,
    /// Written in the configuration itself.
    pub(crate) inline: bool,
    origin: String,
}

/// A document that is no pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// Where it stands.
    pub origin: String,
    /// Why it is left alone.
    pub reason: String,
}

/// Pools cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file or the directory.
    #[error("read {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No YAML.
    #[error("{}: {problem}", path.display())]
    Yaml {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: InvalidYaml,
    },
    /// No JSON.
    #[error("{}: {problem}", path.display())]
    Json {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: serde_json::Error,
    },
    /// A document breaks a rule.
    #[error("{origin}: {problem}")]
    Invalid {
        /// Which file and which document.
        origin: String,
        /// Which key and why.
        problem: InvalidPool,
    },
    /// Two pools have one name.
    #[error("pool {name} is defined twice: in {first} and in {second}; rename or remove one")]
    Duplicate {
        /// The name.
        name: PoolName,
        /// Where it is first.
        first: String,
        /// Where it is again.
        second: String,
    },
}

impl Pools {
    /// The pools of a configuration's `pools`: a list of objects with `name` and the keys of a
    /// `SpiderIPPool`'s `spec`. `null` is no pool at all.
    ///
    /// # Errors
    /// [`ReadError::Invalid`] and [`ReadError::Duplicate`], naming `pools[index]`.
    pub fn from_inline(value: &Value) -> Result<Self, ReadError> {
        let invalid = |origin: String| move |problem| ReadError::Invalid { origin, problem };
        let mut pools = Self::default();
        let items = match value {
            Value::Null => return Ok(pools),
            Value::Array(items) => items,
            other => {
                let problem = Problem::Type { expected: "a list of pools", found: other.to_string() };
                return Err(invalid("configuration".to_owned())(problem.at("pools")));
            }
        };
        for (index, item) in items.iter().enumerate() {
            let origin = format!("pools[{index}]");
            let object = document::inline_object(item).map_err(invalid(origin.clone()))?;
            if !object.contains_key("kind") && !object.contains_key("subnet") {
                return Err(invalid(origin)(Problem::Missing.at("subnet")));
            }
            pools.add(document::read(item).map_err(invalid(origin.clone()))?, &origin, true)?;
        }
        pools.subtract_reserved();
        Ok(pools)
    }

    /// The pools of a directory's `*.yaml`, `*.yml` and `*.json` files in the order of their names; files
    /// whose name begins with a dot are skipped. A missing directory has no pools.
    ///
    /// # Errors
    /// Any [`ReadError`]; one bad document spoils the directory, for it could be a reservation.
    pub fn read_dir(path: &Path) -> Result<Self, ReadError> {
        let mut pools = Self::default();
        for file in files(path)? {
            let text =
                fs::read_to_string(&file).map_err(|source| ReadError::Io { path: file.clone(), source })?;
            pools.add_text(&text, &file)?;
        }
        pools.subtract_reserved();
        Ok(pools)
    }

    /// The pools of one file. `path` stands in messages; if it ends in `.json` the text is JSON, else YAML.
    ///
    /// # Errors
    /// As [`Pools::read_dir`].
    pub fn from_text(text: &str, path: &Path) -> Result<Self, ReadError> {
        let mut pools = Self::default();
        pools.add_text(text, path)?;
        pools.subtract_reserved();
        Ok(pools)
    }

    /// These and then the others'. Addresses reserved in either are reserved in both.
    ///
    /// # Errors
    /// [`ReadError::Duplicate`].
    pub fn join(mut self, other: Self) -> Result<Self, ReadError> {
        for entry in other.entries {
            self.add_entry(entry)?;
        }
        self.reserved.extend(other.reserved);
        self.ignored.extend(other.ignored);
        self.subtract_reserved();
        Ok(self)
    }

    /// All pools in order.
    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.entries.iter().map(|entry| &entry.pool)
    }

    /// The pool of that name.
    pub fn get(&self, name: &str) -> Option<&Pool> {
        self.iter().find(|pool| pool.name.as_str() == name)
    }

    /// How many pools there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no pool.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Addresses that no pool gives out.
    pub fn reserved(&self) -> &[Range] {
        &self.reserved
    }

    /// Documents that were read and are no pools.
    pub fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn add_text(&mut self, text: &str, path: &Path) -> Result<(), ReadError> {
        let documents = if path.extension().is_some_and(|extension| extension == "json") {
            let documents: Result<Vec<Value>, _> =
                serde_json::Deserializer::from_str(text).into_iter().collect();
            documents.map_err(|problem| ReadError::Json { path: path.to_owned(), problem })?
        } else {
            yaml::documents(text).map_err(|problem| ReadError::Yaml { path: path.to_owned(), problem })?
        };
        for (index, document) in documents.iter().enumerate() {
            let origin = match documents.len() {
                1 => path.display().to_string(),
                _ => format!("{}, document {}", path.display(), index + 1),
            };
            let objects = document::read(document)
                .map_err(|problem| ReadError::Invalid { origin: origin.clone(), problem })?;
            self.add(objects, &origin, false)?;
        }
        Ok(())
    }

    fn add(&mut self, objects: Vec<Object>, origin: &str, inline: bool) -> Result<(), ReadError> {
        for object in objects {
            let origin = origin.to_owned();
            match object {
                Object::Pool(pool) => self.add_entry(Entry { pool: *pool, inline, origin })?,
                Object::Reserved(ranges) => self.reserved.extend(ranges),
                Object::Ignored(reason) => self.ignored.push(Ignored { origin, reason }),
            }
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: Entry) -> Result<(), ReadError> {
        if let Some(first) = self.entries.iter().find(|first| first.pool.name == entry.pool.name) {
            let (name, first) = (entry.pool.name, first.origin.clone());
            return Err(ReadError::Duplicate { name, first, second: entry.origin });
        }
        self.entries.push(entry);
        Ok(())
    }

    fn subtract_reserved(&mut self) {
        if !self.reserved.is_empty() {
            for entry in &mut self.entries {
                entry.pool.ranges = entry.pool.ranges.without(&self.reserved);
            }
        }
    }
}

/// A directory's pool files, sorted.
fn files(directory: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let failed = |source| ReadError::Io { path: directory.to_owned(), source };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let extension = path.extension().and_then(|extension| extension.to_str());
        if !hidden && matches!(extension, Some("yaml" | "yml" | "json")) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MANIFESTS: &str = "\
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata:
  name: rail0
spec:
  subnet: 10.0.0.0/24
  ips:
  - 10.0.0.1-10.0.0.9
status:
  allocatedIPs: '{}'
---
apiVersion: v1
kind: ConfigMap
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderReservedIP
metadata:
  name: reserved
spec:
  ips: [10.0.0.1-10.0.0.3]
";

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    fn names(pools: &Pools) -> Vec<&str> {
        pools.iter().map(|pool| pool.name.as_str()).collect()
    }

    fn refused(files: &[(&str, &str)]) -> String {
        Pools::read_dir(directory(files).path()).unwrap_err().to_string()
    }

    #[test]
    fn a_directory_is_read_in_the_order_of_its_names() {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [{
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": "a"}, "spec": {"subnet": "fd00::/64", "ips": ["fd00::1"]}
        }]});
        let files = [
            ("b.yaml", MANIFESTS),
            ("a.json", &list.to_string()),
            ("c.yml", "name: bare\nsubnet: 10.1.0.0/24\nips: [10.1.0.1]"),
            (".hidden.yaml", "["),
            ("README.md", "["),
        ];
        let pools = Pools::read_dir(directory(&files).path()).unwrap();
        assert_eq!(names(&pools), ["a", "rail0", "bare"]);
        assert_eq!(pools.get("rail0").unwrap().ranges.len(), 6, "three are reserved");
        assert_eq!(pools.ignored().len(), 1);
        assert!(pools.ignored()[0].origin.ends_with("b.yaml, document 2"));
        assert_eq!(pools.ignored()[0].reason, "kind \"ConfigMap\" is no SpiderIPPool or SpiderReservedIP");
    }

    #[test]
    fn a_missing_directory_has_no_pools() {
        assert!(Pools::read_dir(Path::new("/nowhere/pools.d")).unwrap().is_empty());
    }

    #[test]
    fn errors_name_file_document_and_key() {
        let bad = MANIFESTS.replace("10.0.0.1-10.0.0.3", "10.0.0.3-10.0.0.1");
        let error = refused(&[("a.yaml", &bad)]);
        assert!(error.contains("/a.yaml, document 3: spec.ips[0]: range"), "{error}");
        let error = refused(&[("a.yaml", &MANIFESTS.replace("subnet: 10.0.0.0/24", "subnet: 10.0.0.1/24"))]);
        assert!(error.contains("/a.yaml, document 1: spec.subnet: "), "{error}");
        let error = refused(&[("a.yaml", "subnet: 10.0.0.0/24")]);
        assert!(error.ends_with("/a.yaml: name: missing"), "{error}");
        let error = refused(&[("a.yaml", "name: A/B\nsubnet: 10.0.0.0/24")]);
        assert!(error.contains("/a.yaml: name: pool name \"A/B\""), "{error}");
        assert!(refused(&[("a.yaml", "a: [")]).contains("/a.yaml: line "));
        assert!(refused(&[("a.json", "{")]).contains("/a.json: EOF while parsing"));
    }

    #[test]
    fn a_kind_of_ours_in_another_group_is_refused() {
        let error = refused(&[("a.yaml", &MANIFESTS.replace("spiderpool.spidernet.io", "spiderpool.io"))]);
        assert!(error.contains("apiVersion: expected spiderpool.spidernet.io/v2beta1"), "{error}");
    }

    #[test]
    fn one_name_in_two_files_is_refused() {
        let pool = "name: a\nsubnet: 10.1.0.0/24";
        let error = refused(&[("1.yaml", pool), ("2.yaml", pool)]);
        assert!(
            error.starts_with("pool a is defined twice: in ") && error.contains("/1.yaml and in "),
            "{error}"
        );
        let inline = Pools::from_inline(&json!([{"name": "a", "subnet": "10.0.0.0/24"}])).unwrap();
        let read = Pools::read_dir(directory(&[("1.yaml", pool)]).path()).unwrap();
        let error = inline.join(read).unwrap_err().to_string();
        assert!(error.contains("in pools[0] and in /"), "{error}");
    }

    #[test]
    fn ipam_case_014_inline_pools_tolerate_unknown_keys() {
        let pools = json!([{"name": "b", "subnet": "10.0.0.0/24", "ips": ["10.0.0.2"], "x": {}}, {"name": "a", "subnet": "fd00::/64"}]);
        assert_eq!(names(&Pools::from_inline(&pools).unwrap()), ["b", "a"]);
        assert!(Pools::from_inline(&Value::Null).unwrap().is_empty());
        for (bad, text) in [
            (json!({}), "configuration: pools: expected a list"),
            (json!([{"name": "a", "subnet": "10.0.0.0/24"}, 5]), "pools[1]: pool: expected an object"),
            (json!([{"name": "a"}]), "pools[0]: subnet: missing"),
            (json!([{"subnet": "10.0.0.0/24"}]), "pools[0]: name: missing"),
        ] {
            let error = Pools::from_inline(&bad).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error} must begin with {text}");
        }
    }

    #[test]
    fn ipam_case_072_reservations_hold_for_joined_pools() {
        let inline = json!([{"name": "x", "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.4"]}]);
        let read = Pools::read_dir(directory(&[("a.yaml", MANIFESTS)]).path()).unwrap();
        let pools = Pools::from_inline(&inline).unwrap().join(read).unwrap();
        assert_eq!(pools.get("x").unwrap().ranges.nth(0), Some("10.0.0.4".parse().unwrap()));
    }
}
