//! The files with the resources for the kubelet, as silkraild on this node has them.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The variable of `silkraild --device-plugin`, which is set in the container of silkraild.
const VARIABLE: &str = "SILKRAILD_DEVICE_PLUGIN";

/// Where the files are on a node, unless silkraild was told other ones.
const FILES: [&str; 2] = ["/etc/silkrail/resources.yaml", "/etc/silkrail/node.yaml"];

/// Returns the files of this node that exist; none if it offers no devices.
pub(crate) fn of_node(root: &Path) -> Vec<PathBuf> {
    if let Some(file) = env::var_os(VARIABLE) {
        return vec![file.into()];
    }
    let files = FILES.iter().map(|file| below(root, Path::new(file)));
    files.filter(|file| file.exists()).collect()
}

/// Returns a path of a node whose root directory is `root`.
pub(crate) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
