//! Names of pods, from their log directories.

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{Error, PodUid};

/// Namespace and name of a pod. A former pod can have had the same name; only the UID is unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// The namespace, such as `kube-system`.
    pub namespace: String,
    /// The name, such as `trainer-0`.
    pub name: String,
}

/// The names of the node's pods, by UID.
#[derive(Debug, Clone)]
pub struct PodNames {
    dir: PathBuf,
    known: BTreeMap<PodUid, PodName>,
}

impl PodNames {
    /// Creates an empty map, which [`read`](Self::read) fills from `<root>/var/log/pods`.
    pub fn at(root: &Path) -> Self {
        Self { dir: root.join("var/log/pods"), known: BTreeMap::new() }
    }

    /// Replaces all names by those of the pods' log directories: `<namespace>_<name>_<uid>`. Other entries are ignored. A
    /// missing parent directory means that there are no pods.
    ///
    /// kubelet creates a pod's directory before its containers, and removes it some time after the pod.
    ///
    /// # Errors
    /// [`Error::Unreadable`]; then the former names remain.
    pub fn read(&mut self) -> Result<(), Error> {
        let failed = |source| Error::Unreadable { path: self.dir.clone(), source };
        let mut known = BTreeMap::new();
        match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => (),
            list => {
                for entry in list.map_err(failed)? {
                    let name = entry.map_err(failed)?.file_name();
                    known.extend(name.to_str().and_then(parse));
                }
            }
        }
        self.known = known;
        Ok(())
    }

    /// Adds a pod from another source, such as the pod map. The next [`read`](Self::read) removes it.
    pub fn insert(&mut self, uid: PodUid, name: PodName) {
        self.known.insert(uid, name);
    }

    /// Returns the name of a pod; `None` if it is unknown.
    pub fn get(&self, uid: &PodUid) -> Option<&PodName> {
        self.known.get(uid)
    }

    /// Returns all known pods, sorted by UID.
    pub fn iter(&self) -> impl Iterator<Item = (&PodUid, &PodName)> {
        self.known.iter()
    }
}

/// Parses the name of a log directory. Namespaces and names do not contain `_`.
fn parse(dir: &str) -> Option<(PodUid, PodName)> {
    let mut parts = dir.split('_');
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let is_pod = parts.next().is_none() && is_name(namespace) && is_name(name);
    let names = || PodName { namespace: namespace.to_owned(), name: name.to_owned() };
    Some((uid.parse().ok()?, is_pod.then(names)?))
}

/// Whether Kubernetes accepts the text as a name (DNS subdomain, RFC 1123).
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    (1..=253).contains(&bytes.len())
        && bytes.iter().all(|byte| is_letter(*byte) || matches!(byte, b'-' | b'.'))
        && [bytes.first(), bytes.last()].into_iter().flatten().all(|byte| is_letter(*byte))
}
