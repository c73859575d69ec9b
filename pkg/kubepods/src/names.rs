//! How pods are called.

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{Error, PodUid};

/// What a pod is called. Another may have been called so before it: only its UID tells them apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The names of the node's pods by their UIDs.
#[derive(Debug, Clone)]
pub struct PodNames {
    dir: PathBuf,
    known: BTreeMap<PodUid, PodName>,
}

impl PodNames {
    /// Those that `<root>/var/log/pods` will tell; none before it is [read](Self::read).
    pub fn at(root: &Path) -> Self {
        Self { dir: root.join("var/log/pods"), known: BTreeMap::new() }
    }

    /// Forgets all names and lists the directories of the pods' logs: `<namespace>_<name>_<uid>`. Other entries are
    /// left out. That there is no such directory means that there are no pods.
    ///
    /// kubelet makes a pod's directory before its containers, and removes it some time after the pod.
    ///
    /// # Errors
    /// [`Error::Unreadable`]; then what was known is still known.
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

    /// Adds a pod that is known from elsewhere, such as the pod map.
    pub fn insert(&mut self, uid: PodUid, name: PodName) {
        self.known.insert(uid, name);
    }

    /// What a pod is called, if it is known.
    pub fn get(&self, uid: &PodUid) -> Option<&PodName> {
        self.known.get(uid)
    }

    /// Every pod that is known, by UID.
    pub fn iter(&self) -> impl Iterator<Item = (&PodUid, &PodName)> {
        self.known.iter()
    }
}

/// A directory's name. Namespaces and names have no `_`.
fn parse(dir: &str) -> Option<(PodUid, PodName)> {
    let mut parts = dir.split('_');
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let is_pod = parts.next().is_none() && is_name(namespace) && is_name(name);
    let names = || PodName { namespace: namespace.to_owned(), name: name.to_owned() };
    Some((uid.parse().ok()?, is_pod.then(names)?))
}

/// What Kubernetes allows in a name (RFC 1123).
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    (1..=253).contains(&bytes.len())
        && bytes.iter().all(|byte| is_letter(*byte) || matches!(byte, b'-' | b'.'))
        && [bytes.first(), bytes.last()].into_iter().flatten().all(|byte| is_letter(*byte))
}
