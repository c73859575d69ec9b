//! The changes that the ADD of a child link makes on the node.
#![warn(clippy::wildcard_enum_match_arm)]

use std::fmt;

use plugin_runtime::{Error, Node, delegate::DelegateAdd, pod_map_entry::PodMapWrite};
use pod_routing::RailRules;
use serde::{Deserialize, Serialize};

use crate::link::ChildLink;

/// A change on the node, as the journal records it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// The IPAM plugin assigned addresses.
    Delegated(DelegateAdd),
    /// The link was created in the pod.
    Link(ChildLink),
    /// The rules of a rail were added in the pod.
    Rules(RailRules),
    /// An entry was written to the pod map.
    Published(PodMapWrite),
}

impl From<RailRules> for Change {
    fn from(rules: RailRules) -> Self {
        Self::Rules(rules)
    }
}

impl journal::Change for Change {
    type Node = Node;
    type Error = Error;

    fn revert(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Delegated(call) => call.revert(node),
            Self::Link(link) => link.revert(node),
            Self::Rules(rules) => rules.revert(),
            Self::Published(entry) => entry.revert(node),
        }
    }

    fn step(&self) -> &'static str {
        match self {
            Self::Delegated(_) => "ipam",
            Self::Link(_) => "link",
            Self::Rules(_) => "rules",
            Self::Published(_) => "podmap",
        }
    }

    fn survives_reboot(&self) -> bool {
        match self {
            Self::Delegated(_) | Self::Published(_) => true,
            Self::Link(_) | Self::Rules(_) => false,
        }
    }

    /// Addresses are released last, when no link has them any more.
    fn revert_last(&self) -> bool {
        matches!(self, Self::Delegated(_))
    }

    fn verify(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Link(link) => link.verify(node),
            Self::Rules(rules) => rules.verify(),
            // The IPAM plugin has a CHECK of its own; the pod's network does not depend on the pod map.
            Self::Delegated(_) | Self::Published(_) => Ok(()),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delegated(call) => call.fmt(f),
            Self::Link(link) => link.fmt(f),
            Self::Rules(rules) => rules.fmt(f),
            Self::Published(entry) => entry.fmt(f),
        }
    }
}
