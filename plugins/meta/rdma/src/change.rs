//! What an ADD changes on the node.
#![warn(clippy::wildcard_enum_match_arm)]

use std::fmt;

use addr::Attachment;
use plugin::{Error, Node, claim::Claim};
use podmap::Rdma;
use serde::{Deserialize, Serialize};

use crate::passage::Passage;

/// A change on the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Change {
    /// The function's RDMA device was claimed.
    Claim(Claim),
    /// A device was moved.
    Passage(Passage),
    /// The attachment's entry in the pod map says so.
    Described(Described),
}

/// The pod map's entry of an attachment was given its RDMA device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Described {
    attachment: Attachment,
    before: Rdma,
}

impl Described {
    /// Writes `rdma` into the entry that the chain's main plugin made; `None` if it made none.
    pub(crate) fn of(node: &Node, attachment: &Attachment) -> Result<Option<Self>, Error> {
        let entry = node.state.podmap().read(attachment)?;
        Ok(entry.map(|entry| Self { attachment: attachment.clone(), before: entry.rdma }))
    }

    /// What the entry said before.
    pub(crate) fn before(&self) -> &Rdma {
        &self.before
    }

    /// Writes the entry.
    pub(crate) fn write(&self, node: &Node, rdma: Rdma) -> Result<(), Error> {
        let map = node.state.podmap();
        let Some(mut entry) = map.read(&self.attachment)? else { return Ok(()) };
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
            Self::Passage(passage) => passage.revert(node),
            Self::Described(entry) => entry.write(node, entry.before.clone()),
        }
    }

    fn verify(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Claim(claim) => claim.verify(node),
            Self::Passage(passage) => passage.verify(),
            Self::Described(_) => Ok(()),
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
            Self::Passage(passage) => passage.fmt(f),
            Self::Described(entry) => write!(f, "pod map entry of {}", entry.attachment),
        }
    }
}
