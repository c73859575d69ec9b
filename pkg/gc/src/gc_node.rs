//! The node that is inspected and cleaned up.

use std::path::PathBuf;

use state::StateDir;

/// The node that is inspected and cleaned up.
#[derive(Debug)]
pub struct GcNode {
    /// Its root directory, `/` on the node itself.
    pub root: PathBuf,
    /// The state directory of the plugins; an absolute path.
    pub state: StateDir,
    /// Directory of other projects' IPAM plugins, for those that are no longer at the path in the journal.
    pub cni_path: PathBuf,
}
