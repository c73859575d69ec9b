//! CNI plugins in the CNI directory: those of Silkrail, and those of other projects with the same names.

use std::{
    collections::BTreeMap,
    fs,
    io::BufRead,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    Known,
    host_root::{HostRoot, read},
};

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CniFacts {
    /// The directory that has the plugins of Silkrail.
    pub(crate) dir: String,
    /// The directories in which the container runtime searches plugins, in this order.
    pub(crate) dirs: Vec<PathBuf>,
    /// Files with the name of a Silkrail plugin; absent if the directory does not exist.
    pub(crate) files: Known<Vec<PluginFile>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginFile {
    pub(crate) name: String,
    pub(crate) kind: PluginFileKind,
    pub(crate) executable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PluginFileKind {
    /// The Silkrail executable: its version, and a number that is different for each content.
    Ours { version: String, content: usize },
    /// Another project's executable.
    #[default]
    Foreign,
    /// A symbolic link whose target does not exist.
    Dangling,
    /// The file could not be read.
    Unknown,
}

/// The name of the executable that contains all plugins.
const EXECUTABLE: &str = "silkrail-cni";
/// The text that every version of the executable contains before its version number. It is split so that this executable
/// does not contain it.
const VERSION_MARKER: (&[u8], &[u8]) = (b"silkrail-", b"cni ");
/// An upper limit of the size of the executable, including debug information.
const MAX_EXECUTABLE_BYTES: u64 = 128 << 20;

impl CniFacts {
    /// Reads the first of the directories, or the first that has a plugin of Silkrail.
    pub(crate) fn read(tree: &HostRoot, dirs: Vec<PathBuf>, plugins: &[&str]) -> Self {
        let mut scanner = PluginScanner { tree, seen: BTreeMap::new(), contents: Vec::new() };
        let mut read = |dir: &PathBuf| {
            let files = tree.names(dir).map(|names| {
                let ours = names.iter().filter(|name| has_name_of_ours(name, plugins));
                ours.map(|name| scanner.file(&dir.join(name), name)).collect()
            });
            Self { dir: dir.display().to_string(), files, dirs: Vec::new() }
        };
        let mut all: Vec<Self> = dirs.iter().map(&mut read).collect();
        let has_ours = |facts: &Self| {
            facts.files.items().iter().any(|file| matches!(file.kind, PluginFileKind::Ours { .. }))
        };
        let chosen = all.iter().position(has_ours).unwrap_or_default();
        let facts = if all.is_empty() { Self::default() } else { all.swap_remove(chosen) };
        Self { dirs, ..facts }
    }

    /// Returns whether an executable is a plugin of Silkrail.
    pub(crate) fn is_ours(&self, path: &str) -> bool {
        let Some(name) = path.strip_prefix(&self.dir).and_then(|name| name.strip_prefix('/')) else {
            return false;
        };
        self.files.items().iter().any(|file| {
            file.name == name && file.executable && matches!(file.kind, PluginFileKind::Ours { .. })
        })
    }
}

fn has_name_of_ours(name: &str, plugins: &[&str]) -> bool {
    let short = name.strip_prefix("silkrail-").unwrap_or(name);
    name == EXECUTABLE || plugins.contains(&name) || plugins.contains(&short)
}

/// Scans the CNI directory. A file with several hard or symbolic links is read once.
struct PluginScanner<'a> {
    tree: &'a HostRoot,
    seen: BTreeMap<(u64, u64), PluginFileKind>,
    /// The distinct contents of Silkrail executables.
    contents: Vec<Vec<u8>>,
}

impl PluginScanner<'_> {
    fn file(&mut self, path: &Path, name: &str) -> PluginFile {
        let path = self.tree.path(path);
        let file = |kind, executable| PluginFile { name: name.to_owned(), kind, executable };
        let Ok(meta) = fs::metadata(&path) else { return file(PluginFileKind::Dangling, false) };
        let kind = match self.seen.get(&(meta.dev(), meta.ino())) {
            Some(kind) => kind.clone(),
            None => self.kind(&path),
        };
        self.seen.insert((meta.dev(), meta.ino()), kind.clone());
        file(kind, meta.permissions().mode() & 0o111 != 0)
    }

    fn kind(&mut self, path: &Path) -> PluginFileKind {
        let bytes = match read(path, MAX_EXECUTABLE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.tree.note_unexamined(self.tree.shown(path), error);
                return PluginFileKind::Unknown;
            }
        };
        let Some(version) = version(&bytes) else { return PluginFileKind::Foreign };
        let content = self.contents.iter().position(|known| *known == bytes).unwrap_or_else(|| {
            self.contents.push(bytes);
            self.contents.len() - 1
        });
        PluginFileKind::Ours { version, content }
    }
}

/// Returns the version after the marker. The marker without a version occurs in other executables too.
///
/// `skip_until` searches for a single byte, which is fast even in an unoptimized build.
fn version(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    while rest.skip_until(b'-').is_ok_and(|skipped| skipped > 0) {
        let before = &bytes[..bytes.len() - rest.len()];
        if !(before.ends_with(VERSION_MARKER.0) && rest.starts_with(VERSION_MARKER.1)) {
            continue;
        }
        let version = &rest[VERSION_MARKER.1.len()..];
        let end = version.iter().position(|b| !(b.is_ascii_digit() || *b == b'.')).unwrap_or(version.len());
        if end > 0 && version[0].is_ascii_digit() {
            return Some(String::from_utf8_lossy(&version[..end]).trim_end_matches('.').to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_with_a_plugin_of_silkrail_is_examined() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("a/macvlan", "CNI macvlan plugin v1.1.1");
        write("b/macvlan", "silkrail-cni 0.1.0\nfirst");
        write("b/silkrail-rdma", "silkrail-cni 0.1.0\nsecond");
        write("b/bridge", "silkrail-cni 0.1.0\n");
        fs::hard_link(root.path().join("b/macvlan"), root.path().join("b/silkrail-cni")).unwrap();
        write("c/macvlan", "silkrail-cni 0.2.0\n");
        let read = |dirs: &[&str]| {
            let dirs = dirs.iter().map(PathBuf::from).collect();
            CniFacts::read(&HostRoot::at(root.path()), dirs, &["macvlan", "rdma"])
        };
        let facts = read(&["/a", "/b", "/c"]);
        assert_eq!((facts.dir.as_str(), facts.dirs.len()), ("/b", 3));
        let ours = |content| PluginFileKind::Ours { version: "0.1.0".into(), content };
        let files: Vec<_> = facts.files.items().iter().map(|file| (&*file.name, file.kind.clone())).collect();
        assert_eq!(files, [("macvlan", ours(0)), ("silkrail-cni", ours(0)), ("silkrail-rdma", ours(1))]);
        assert!(facts.is_ours("/b/macvlan") && !facts.is_ours("/a/macvlan") && !facts.is_ours("/b/bridge"));
        let none = read(&["/none", "/a"]);
        assert_eq!((none.dir.as_str(), none.files.is_absent()), ("/none", true));
    }

    #[test]
    fn an_executable_is_recognized_by_its_marker_and_version() {
        assert_eq!(version(b"\0..silkrail-cni 0.1.0\nA CNI plugin").as_deref(), Some("0.1.0"));
        assert_eq!(version(b"links to silkrail-cni in /opt, ssilkrail-cni 2.10"), Some("2.10".into()));
        assert_eq!(version(b"CNI macvlan plugin v1.1.1"), None);
        assert_eq!(version(b"silkrail-cni "), None);
    }
}
