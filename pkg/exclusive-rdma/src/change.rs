//! The changes that an ADD makes on the node.
#![warn(clippy::wildcard_enum_match_arm)]

use std::fmt;

use netns::NetNs;
use plugin_runtime::{Error, Node};
use serde::{Deserialize, Serialize};
use state::claim::DeviceClaim;

use crate::{device_move::DeviceMove, pod_map_update::PodMapUpdate};

/// The `type` of the plugin that makes only these changes.
pub const PLUGIN: &str = "rdma";

/// A change on the node, as the journal records it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RdmaChange {
    /// The function's RDMA device was claimed.
    Claim(DeviceClaim),
    /// A device was moved to the pod.
    Move(DeviceMove),
    /// The device was added to the attachment's entry in the pod map.
    Described(PodMapUpdate),
}

impl RdmaChange {
    /// Checks that a device that was moved is in this pod.
    ///
    /// # Errors
    /// If it is not.
    pub fn require_in_netns(&self, pod: &NetNs) -> Result<(), Error> {
        match self {
            Self::Move(device_move) => device_move.require_in_netns(pod),
            Self::Claim(_) | Self::Described(_) => Ok(()),
        }
    }
}

impl journal::Change for RdmaChange {
    type Node = Node;
    type Error = Error;

    fn revert(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Claim(claim) => Ok(claim.revert(&node.state, node.claims_lock().at())?),
            Self::Move(device_move) => device_move.revert(node),
            Self::Described(entry) => entry.revert(node),
        }
    }

    fn verify(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Claim(claim) => Ok(claim.verify(&node.state, node.claims_lock().at())?),
            Self::Move(device_move) => device_move.verify(node),
            Self::Described(_) => Ok(()),
        }
    }

    fn step(&self) -> &'static str {
        match self {
            Self::Claim(_) => "rdma-claim",
            Self::Move(_) => "rdma-move",
            Self::Described(_) => "podmap",
        }
    }

    fn survives_reboot(&self) -> bool {
        match self {
            Self::Claim(_) | Self::Described(_) => true,
            Self::Move(_) => false,
        }
    }

    fn revert_last(&self) -> bool {
        matches!(self, Self::Claim(_))
    }
}

impl fmt::Display for RdmaChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(claim) => claim.fmt(f),
            Self::Move(device_move) => device_move.fmt(f),
            Self::Described(entry) => entry.fmt(f),
        }
    }
}
