//! Checks whether this process is in the host's network namespace.

use std::{fs, path::Path};

use crate::NotOnNode;

/// Fails if this process is not in the host's network namespace: devices would not be found, or not return to the host.
///
/// # Errors
/// [`NotOnNode::Elsewhere`]; [`NotOnNode::Unreadable`] if `/proc/1/ns/net` cannot be read.
pub fn require_node_netns(root: &Path) -> Result<(), NotOnNode> {
    let of = |process: &str| {
        let path = root.join("proc").join(process).join("ns/net");
        let target = fs::read_link(&path).map_err(|source| NotOnNode::Unreadable { path, source })?;
        Ok::<_, NotOnNode>(target.to_string_lossy().into_owned())
    };
    let (is, node) = (of("self")?, of("1")?);
    if is == node { Ok(()) } else { Err(NotOnNode::Elsewhere { is, node }) }
}

/// Like [`require_node_netns`], but succeeds if the host's network namespace cannot be read. For commands that only read.
///
/// # Errors
/// [`NotOnNode::Elsewhere`].
pub fn require_node_netns_if_known(root: &Path) -> Result<(), NotOnNode> {
    match require_node_netns(root) {
        Err(NotOnNode::Unreadable { .. }) => Ok(()),
        other => other,
    }
}
