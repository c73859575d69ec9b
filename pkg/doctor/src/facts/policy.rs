//! The policy of the node, `/etc/silkrail/policy.yaml`.

use std::io;

use node_policy::{NodePolicy, PolicyError};
use serde::Serialize;

use crate::host_root::HostRoot;

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct PolicyFacts {
    /// The path of the file on the node.
    pub(crate) file: String,
    /// The error and its remedy, if the plugins cannot use it.
    pub(crate) problem: Option<(String, &'static str)>,
}

impl PolicyFacts {
    pub(crate) fn read(tree: &HostRoot) -> Self {
        let file = format!("/{}", NodePolicy::PATH);
        let problem = match NodePolicy::read(&tree.path("/")) {
            Ok(_) => None,
            Err(PolicyError::File(statefile::Error::Io { source, .. }))
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                tree.note_unexamined(&file, source);
                None
            }
            Err(error) => Some((error.to_string(), error.remedy())),
        };
        Self { file, problem }
    }
}
