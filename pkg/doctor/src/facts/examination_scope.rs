//! The privileges and the view of the process that examined the node.

use std::path::Path;

use nix::unistd::geteuid;
use serde::Serialize;

use crate::host_root::HostRoot;

/// The privileges and the view of the process that examined the node.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExaminationScope {
    /// Whether the process ran as root.
    pub(crate) superuser: bool,
    /// Whether the root directory belongs to the running kernel: the boot IDs are equal.
    pub(crate) this_machine: bool,
    /// Whether the calling thread is in the host's network namespace; `None` if that cannot be determined.
    pub(crate) nodes_netns: Option<bool>,
}

impl ExaminationScope {
    pub(super) fn at(tree: &HostRoot) -> Self {
        let boot = bootid::FILE;
        let own = HostRoot::at(Path::new("/")).text(boot).into_option();
        let this_machine = own.is_some() && own == tree.text(boot).into_option();
        Self { superuser: geteuid().is_root(), this_machine, nodes_netns: nodes_netns(tree, this_machine) }
    }

    /// Returns why the node's plugins cannot be called; `None` if they can. They examine the namespaces in which they run.
    pub(crate) fn reason_not_to_call_plugins(&self, tree: &HostRoot) -> Option<&'static str> {
        match self {
            _ if tree.path("") != Path::new("/") => {
                Some("the root directory is not that of this process: run the command on the node itself")
            }
            Self { nodes_netns: Some(false), .. } => {
                Some("this process is not in the host's network namespace")
            }
            Self { superuser: false, .. } => Some("this process does not run as root"),
            _ => None,
        }
    }

    /// Returns whether netlink replies describe the node whose files are examined.
    pub(crate) fn can_query_netlink(&self) -> bool {
        self.this_machine && self.nodes_netns != Some(false)
    }
}

/// Compares the network namespace of process 1 with that of the calling thread. Only root can read the former.
fn nodes_netns(tree: &HostRoot, this_machine: bool) -> Option<bool> {
    if !this_machine {
        return None;
    }
    let path = tree.path("proc/1/ns/net");
    let host = match std::fs::read_link(&path) {
        Ok(host) => host,
        Err(error) => {
            tree.note_unexamined(
                format!("whether this is the host's network namespace ({})", tree.shown(&path)),
                error,
            );
            return None;
        }
    };
    let own = std::fs::read_link("/proc/thread-self/ns/net").ok()?;
    Some(host == own)
}
