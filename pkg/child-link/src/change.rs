//! What a child link's ADD changes on the node.
#![warn(clippy::wildcard_enum_match_arm)]

use std::fmt;

use plugin_runtime::{Error, Node, delegate::DelegateAdd, pod_map_entry::PodMapWrite};
use serde::{Deserialize, Serialize};

use crate::link::ChildLink;

/// A change on the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// The IPAM plugin was called.
    Delegated(DelegateAdd),
    /// The link was made.
    Link(ChildLink),
    /// The pod map has an entry.
    Published(PodMapWrite),
}

impl journal::Change for Change {
    type Node = Node;
    type Error = Error;

    fn revert(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Delegated(call) => call.revert(node),
            Self::Link(link) => link.revert(node),
            Self::Published(entry) => entry.revert(node),
        }
    }

    fn survives_reboot(&self) -> bool {
        match self {
            Self::Delegated(_) | Self::Published(_) => true,
            Self::Link(_) => false,
        }
    }

    /// An address is free only when no link has it any more.
    fn revert_last(&self) -> bool {
        matches!(self, Self::Delegated(_))
    }

    fn verify(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Link(link) => link.verify(node),
            // The IPAM plugin's own CHECK is called; the pod map is a convenience.
            Self::Delegated(_) | Self::Published(_) => Ok(()),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delegated(call) => call.fmt(f),
            Self::Link(link) => link.fmt(f),
            Self::Published(entry) => entry.fmt(f),
        }
    }
}
