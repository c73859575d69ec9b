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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_process_in_another_namespace_than_the_host_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let link = |process: &str, namespace: &str| {
            let ns = root.path().join("proc").join(process).join("ns");
            fs::create_dir_all(&ns).unwrap();
            let _ = fs::remove_file(ns.join("net"));
            symlink(namespace, ns.join("net")).unwrap();
        };
        let is_required = || require_node_netns(root.path());
        link("self", "net:[4026531840]");
        assert!(
            matches!(is_required(), Err(NotOnNode::Unreadable { path, .. }) if path.ends_with("proc/1/ns/net"))
        );
        assert!(require_node_netns_if_known(root.path()).is_ok());
        link("1", "net:[4026531840]");
        assert!(is_required().is_ok() && require_node_netns_if_known(root.path()).is_ok());
        link("self", "net:[4026532999]");
        for refused in [is_required(), require_node_netns_if_known(root.path())] {
            let Err(NotOnNode::Elsewhere { is, node }) = refused else { panic!("{refused:?}") };
            assert_eq!((is.as_str(), node.as_str()), ("net:[4026532999]", "net:[4026531840]"));
        }
    }
}
