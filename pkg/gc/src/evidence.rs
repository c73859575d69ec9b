//! What is alive on the node, at one time.

use netns::LiveNetns;
use state::orphans::LivenessEvidence;

use crate::{error::Error, gc_node::GcNode};

/// The evidence for verdicts. A namespace that it shows as dead stays dead, so old evidence remains valid for those.
pub(crate) struct GcEvidence<'a> {
    pub(crate) living: LiveNetns,
    pub(crate) witnesses: LivenessEvidence<'a>,
}

impl<'a> GcEvidence<'a> {
    pub(crate) fn scan(node: &'a GcNode) -> Result<Self, Error> {
        Ok(Self { living: LiveNetns::scan(&node.root)?, witnesses: LivenessEvidence::look(&node.state)? })
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    use std::{fs, os::unix::fs::symlink};

    use state::StateDir;
    use tempfile::TempDir;

    use super::*;

    /// A node without processes and network namespaces, in whose namespaces this process is.
    pub(crate) fn empty_node() -> (TempDir, GcNode) {
        let root = tempfile::tempdir().unwrap();
        for process in ["1", "self"] {
            let dir = root.path().join("proc").join(process);
            fs::create_dir_all(dir.join("ns")).unwrap();
            fs::write(dir.join("mountinfo"), "").unwrap();
            symlink("net:[1]", dir.join("ns/net")).unwrap();
        }
        symlink("pid:[4026531836]", root.path().join("proc/self/ns/pid")).unwrap();
        let state = StateDir::at(root.path().join("state"));
        let node = GcNode { root: root.path().to_owned(), state, cni_path: "/nonexistent".into() };
        (root, node)
    }
}
