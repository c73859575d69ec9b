//! What an ADD changes on the node.
#![warn(clippy::wildcard_enum_match_arm)]

use std::fmt;

use addr::Attachment;
use plugin::{Error, Node, Pod, claim::Claim, entry};
use podmap::Rdma;
use serde::{Deserialize, Serialize};

use crate::device_move::DeviceMove;

/// A change on the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Change {
    /// The function's RDMA device was claimed.
    Claim(Claim),
    /// A device was moved.
    Move(DeviceMove),
    /// The attachment's entry in the pod map says so.
    Described(Described),
}

impl Change {
    /// Looks whether what was moved is in this pod.
    ///
    /// # Errors
    /// That it is not.
    pub(crate) fn is_in(&self, pod: &Pod) -> Result<(), Error> {
        match self {
            Self::Move(device_move) => device_move.is_in(pod),
            Self::Claim(_) | Self::Described(_) => Ok(()),
        }
    }
}

/// The pod map's entry of an attachment was given its RDMA device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Described {
    attachment: Attachment,
    before: Rdma,
}

impl Described {
    /// Writes `rdma` into the entry that the chain's main plugin made; `None` if it made none.
    pub(crate) fn of(node: &Node, attachment: &Attachment) -> Option<Self> {
        // The map is a convenience: one that cannot be read is no reason for a pod not to start.
        let entry = entry::read(node, attachment).ok()??;
        Some(Self { attachment: attachment.clone(), before: entry.rdma })
    }

    /// What the entry said before.
    pub(crate) fn before(&self) -> &Rdma {
        &self.before
    }

    /// Writes what the entry said before. One that cannot be written is removed: nobody may take it for true.
    fn revert(&self, node: &Node) -> Result<(), Error> {
        self.write(node, self.before.clone()).or_else(|_| Ok(node.state.podmap().remove(&self.attachment)?))
    }

    /// Writes the entry.
    pub(crate) fn write(&self, node: &Node, rdma: Rdma) -> Result<(), Error> {
        let map = node.state.podmap();
        let Some(mut entry) = entry::read(node, &self.attachment)? else { return Ok(()) };
        entry.rdma = rdma;
        Ok(map.write(&self.attachment, &entry)?)
    }
}

impl journal::Change for Change {
    type Node = Node;
    type Error = Error;

    fn revert(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Claim(claim) => claim.revert(node),
            Self::Move(device_move) => device_move.revert(node),
            Self::Described(entry) => entry.revert(node),
        }
    }

    fn verify(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Claim(claim) => claim.verify(node),
            Self::Move(device_move) => device_move.verify(),
            Self::Described(_) => Ok(()),
        }
    }

    fn outlives_boots(&self) -> bool {
        match self {
            Self::Claim(_) | Self::Described(_) => true,
            Self::Move(_) => false,
        }
    }

    fn guards_later_ones(&self) -> bool {
        matches!(self, Self::Claim(_))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(claim) => claim.fmt(f),
            Self::Move(device_move) => device_move.fmt(f),
            Self::Described(entry) => write!(f, "pod map entry of {}", entry.attachment),
        }
    }
}
