//! Whether this process is in the node's own network namespace.

use std::{fs, path::Path};

use crate::NotOnNode;

/// Refuses to work in another network namespace than the node's: devices would not be found, or not come home.
///
/// # Errors
/// [`NotOnNode::Elsewhere`]; [`NotOnNode::Unreadable`] if `/proc` does not show it.
pub fn require_node_netns(root: &Path) -> Result<(), NotOnNode> {
    let of = |process: &str| {
        let path = root.join("proc").join(process).join("ns/net");
        let target = fs::read_link(&path).map_err(|source| NotOnNode::Unreadable { path, source })?;
        Ok::<_, NotOnNode>(target.to_string_lossy().into_owned())
    };
    let (is, node) = (of("self")?, of("1")?);
    if is == node { Ok(()) } else { Err(NotOnNode::Elsewhere { is, node }) }
}

/// The same for whoever only looks, and may not see where the node is.
///
/// # Errors
/// [`NotOnNode::Elsewhere`].
pub fn require_node_netns_if_known(root: &Path) -> Result<(), NotOnNode> {
    match require_node_netns(root) {
        Err(NotOnNode::Unreadable { .. }) => Ok(()),
        other => other,
    }
}
