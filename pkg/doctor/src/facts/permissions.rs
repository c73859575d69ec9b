//! Files that root trusts: who else can write them, and who can read secrets.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{cni::CniFacts, networks::NetworkFacts};
use crate::host_root::HostRoot;

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionFacts {
    /// Files and directories that others than root can change, with their owner and mode.
    pub(crate) writable: Vec<(String, String)>,
    /// Files with secrets that others than root can read.
    pub(crate) readable_secrets: Vec<(String, String)>,
}

/// The directory of Silkrail's configuration.
const CONFIGURATION: &str = "/etc/silkrail";
/// The credentials of Multus.
const MULTUS: &str = "/etc/cni/net.d/multus.d";
const WRITE_BY_GROUP: u32 = 0o020;
const WRITE_BY_OTHERS: u32 = 0o002;
const READ_BY_OTHERS: u32 = 0o004;
/// A directory in which only owners can replace files, such as `/tmp`.
const STICKY: u32 = 0o1000;

impl PermissionFacts {
    pub(crate) fn read(tree: &HostRoot, cni: &CniFacts, networks: &NetworkFacts, state_dir: &Path) -> Self {
        let mut facts = Self::default();
        let mut paths: Vec<PathBuf> =
            vec![CONFIGURATION.into(), PathBuf::from(&networks.dir), state_dir.into()];
        paths.extend(below(tree, Path::new(CONFIGURATION)));
        paths.extend(below(tree, Path::new(&networks.dir)));
        paths.extend(cni.dirs.iter().cloned());
        for (_, plugin) in networks.plugins() {
            let ipam = plugin.ipam_file.as_ref().and_then(|file| file.get());
            paths.extend(plugin.file.get().into_iter().chain(ipam).map(PathBuf::from));
        }
        let ours = cni.files.items().iter().map(|file| Path::new(&cni.dir).join(&file.name));
        paths.extend(ours);
        paths.sort();
        paths.dedup();
        for path in &paths {
            facts.add(tree, path);
        }
        for path in below(tree, Path::new(MULTUS)) {
            facts.add_secret(tree, &path);
        }
        facts
    }

    fn add(&mut self, tree: &HostRoot, path: &Path) {
        let Ok(meta) = fs::metadata(tree.path(path)) else { return };
        let mode = meta.mode();
        let by_group = mode & WRITE_BY_GROUP != 0 && meta.gid() != 0;
        let by_others = mode & WRITE_BY_OTHERS != 0 && mode & STICKY == 0;
        if meta.uid() != 0 || by_group || by_others {
            self.writable.push((path.display().to_string(), about(&meta)));
        }
        if is_secret(path) {
            self.add_secret(tree, path);
        }
    }

    fn add_secret(&mut self, tree: &HostRoot, path: &Path) {
        let Ok(meta) = fs::metadata(tree.path(path)) else { return };
        if meta.is_file() && meta.mode() & READ_BY_OTHERS != 0 {
            self.readable_secrets.push((path.display().to_string(), about(&meta)));
        }
    }
}

fn about(meta: &fs::Metadata) -> String {
    format!("owner {}:{}, mode {:04o}", meta.uid(), meta.gid(), meta.mode() & 0o7777)
}

fn is_secret(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("token" | "key" | "kubeconfig"))
}

/// Returns the entries of a directory and of its directories.
fn below(tree: &HostRoot, dir: &Path) -> Vec<PathBuf> {
    let children = |dir: &Path| -> Vec<PathBuf> {
        let names = tree.names(dir).into_option().unwrap_or_default();
        names.iter().map(|name| dir.join(name)).collect()
    };
    let mut found = children(dir);
    for path in found.clone() {
        if fs::symlink_metadata(tree.path(&path)).is_ok_and(|meta| meta.is_dir()) {
            found.extend(children(&path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    /// Returns whether a file that root trusts is reported with an owner, a group and a mode.
    fn is_writable(owner: u32, group: u32, mode: u32) -> bool {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("etc/silkrail/pools.d/a.yaml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        chown(&file, Some(owner), Some(group)).unwrap();
        let tree = HostRoot::at(root.path());
        let (cni, networks) =
            (CniFacts::default(), NetworkFacts { dir: "/none".into(), ..NetworkFacts::default() });
        let facts = PermissionFacts::read(&tree, &cni, &networks, Path::new("/none"));
        let paths: Vec<_> = facts.writable.iter().map(|(path, _)| path.as_str()).collect();
        assert!(paths.is_empty() || paths == ["/etc/silkrail/pools.d/a.yaml"], "{paths:?}");
        !paths.is_empty()
    }

    #[test]
    fn a_file_is_writable_for_others_by_its_owner_its_group_or_its_mode() {
        for (owner, group, mode, expected) in [
            (0, 0, 0o644, false),
            (0, 0, 0o664, false),
            (0, 1000, 0o644, false),
            (0, 1000, 0o664, true),
            (0, 0, 0o646, true),
            (0, 0, 0o1646, false),
            (1000, 0, 0o444, true),
        ] {
            assert_eq!(is_writable(owner, group, mode), expected, "{owner}:{group} {mode:o}");
        }
    }
}
