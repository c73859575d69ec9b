//! A node without PFs.

use std::{fs, os::unix::fs::symlink, time::Duration};

use inventory::NodePaths;
use state::StateDir;
use sysfs::Sysfs;
use tempfile::TempDir;

use crate::SysfsBackend;

/// A node in whose network namespace this process is.
pub(crate) fn without_pfs() -> (TempDir, NodePaths, SysfsBackend) {
    let root = tempfile::tempdir().unwrap();
    for process in ["self", "1"] {
        let dir = root.path().join("proc").join(process).join("ns");
        fs::create_dir_all(&dir).unwrap();
        symlink("net:[1]", dir.join("net")).unwrap();
    }
    let node = NodePaths { root: root.path().to_owned(), state: StateDir::at(root.path().join("run")) };
    let sysfs = Sysfs::at(root.path().join("sys"));
    let system = SysfsBackend { sysfs, writer: Vec::new(), limit: Duration::from_millis(100) };
    (root, node, system)
}
