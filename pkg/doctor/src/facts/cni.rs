//! CNI plugins in their directory: ours, and others under our names.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use serde::Serialize;

use crate::{
    Known,
    tree::{Tree, read},
};

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cni {
    pub(crate) dir: String,
    /// Files that have a name of ours; nothing if the directory is not there.
    pub(crate) files: Known<Vec<File>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) executable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Kind {
    /// Our executable: its version, and a number that differs if its content does.
    Ours { version: String, content: u64 },
    /// Somebody else's.
    #[default]
    Foreign,
    /// A symbolic link that leads nowhere.
    Dangling,
    /// It could not be read.
    Unknown,
}

/// The name of the executable that is all plugins.
const EXECUTABLE: &str = "silkrail-cni";
/// What every version of it says of itself, followed by the version.
const MARK: &[u8] = b"silkrail-cni ";
/// No executable of ours is longer, also with debug information.
const LIMIT: u64 = 128 << 20;

impl Cni {
    pub(crate) fn read(tree: &Tree, dir: &Path, plugins: &[&str]) -> Self {
        let mut looker = Looker { tree, seen: BTreeMap::new() };
        let files = tree.names(dir).map(|names| {
            let ours = names.iter().filter(|name| is_ours(name, plugins));
            ours.map(|name| looker.file(&dir.join(name), name)).collect()
        });
        Self { dir: dir.display().to_string(), files }
    }
}

fn is_ours(name: &str, plugins: &[&str]) -> bool {
    let short = name.strip_prefix("silkrail-").unwrap_or(name);
    name == EXECUTABLE || plugins.contains(&name) || plugins.contains(&short)
}

/// Links to one file are read once.
struct Looker<'a> {
    tree: &'a Tree,
    seen: BTreeMap<(u64, u64), Kind>,
}

impl Looker<'_> {
    fn file(&mut self, path: &Path, name: &str) -> File {
        let path = self.tree.path(path);
        let file = |kind, executable| File { name: name.to_owned(), kind, executable };
        let Ok(meta) = fs::metadata(&path) else { return file(Kind::Dangling, false) };
        let kind = self.seen.entry((meta.dev(), meta.ino())).or_insert_with(|| kind(self.tree, &path));
        file(kind.clone(), meta.permissions().mode() & 0o111 != 0)
    }
}

fn kind(tree: &Tree, path: &Path) -> Kind {
    let bytes = match read(path, LIMIT) {
        Ok(bytes) => bytes,
        Err(error) => {
            tree.note(tree.shown(path), error);
            return Kind::Unknown;
        }
    };
    match version(&bytes) {
        Some(version) => {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            Kind::Ours { version, content: hasher.finish() }
        }
        None => Kind::Foreign,
    }
}

/// The version behind the mark. The mark without a version is in other executables too: this one.
fn version(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    while let Some(at) = find(rest, MARK) {
        rest = &rest[at + MARK.len()..];
        let end = rest.iter().position(|b| !(b.is_ascii_digit() || *b == b'.')).unwrap_or(rest.len());
        if end > 0 && rest[0].is_ascii_digit() {
            return Some(String::from_utf8_lossy(&rest[..end]).trim_end_matches('.').to_owned());
        }
    }
    None
}

/// Looks for the first byte first: an executable has some 20 MB without optimisation.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let (first, mut from) = (*wanted.first()?, 0);
    loop {
        from += bytes[from..].iter().position(|byte| *byte == first)?;
        if bytes[from..].starts_with(wanted) {
            return Some(from);
        }
        from += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_executable_is_known_by_its_mark_and_its_version() {
        assert_eq!(version(b"\0..silkrail-cni 0.1.0\nA CNI plugin").as_deref(), Some("0.1.0"));
        assert_eq!(version(b"links to silkrail-cni in /opt, ssilkrail-cni 2.10"), Some("2.10".into()));
        assert_eq!(version(b"CNI macvlan plugin v1.1.1"), None);
        assert_eq!(version(b"silkrail-cni "), None);
    }
}
