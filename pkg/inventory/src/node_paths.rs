//! The directories of a node.

use std::path::PathBuf;

use state::StateDir;
use sysfs::Sysfs;

/// The directories of a node.
#[derive(Debug, Clone)]
pub struct NodePaths {
    /// Its root directory: `/`, or its mount point in a container.
    pub root: PathBuf,
    /// The state directory of the plugins.
    pub state: StateDir,
}

impl NodePaths {
    /// Returns its sysfs.
    pub fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.root.join("sys"))
    }
}
