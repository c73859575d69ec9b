//! The changes that an ADD makes on the node: claims of addresses and the pod's link.
#![warn(clippy::wildcard_enum_match_arm)]

use std::{fmt, net::IpAddr};

use identifiers::Attachment;
use ipam::{ClaimOwner, LocalStore};
use plugin_runtime::{Error, Node};
use serde::{Deserialize, Serialize};

use crate::{error::IpamError, pod_interface_note::PodInterfaceNote, spiderpool::AgentAddress};

/// A change on the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// An address was claimed.
    Claim(ClaimedAddress),
    /// The link from the pod's interface to its attachment was written.
    Note(PodInterfaceNote),
    /// Spiderpool's agent has assigned addresses.
    Agent(AgentAddress),
}

/// The claim of an address. A revert releases it only if its owner is still `owner`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedAddress {
    pub(crate) owner: Attachment,
    pub(crate) pool: String,
    pub(crate) address: IpAddr,
}

impl ClaimedAddress {
    fn revert(&self, node: &Node) -> Result<(), Error> {
        let Some(store) = store(node)? else { return Ok(()) };
        store.release(Some(&self.pool), self.address, &self.owner)?;
        Ok(())
    }

    pub(crate) fn verify(&self, node: &Node) -> Result<(), Error> {
        let Self { owner, address, .. } = self;
        let found = store(node)?.map_or(Ok(None), |store| store.owner(*address))?;
        match found {
            Some(ClaimOwner::Attachment(is)) if is == *owner => Ok(()),
            Some(other) => {
                let (current, owner) = (other.to_string(), owner.clone());
                Err(IpamError::NotOwner { address: *address, current, owner }.into())
            }
            None => Err(IpamError::NotClaimed { address: *address, owner: owner.clone() }.into()),
        }
    }
}

impl journal::Change for Change {
    type Node = Node;
    type Error = Error;

    fn revert(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Claim(claim) => claim.revert(node),
            Self::Note(note) => note.revert(node),
            Self::Agent(address) => address.release(node),
        }
    }

    fn verify(&self, node: &Node) -> Result<(), Error> {
        match self {
            Self::Claim(claim) => claim.verify(node),
            // The link only matters to a restarted sandbox, which would get other addresses without it.
            Self::Note(_) => Ok(()),
            // Only the agent knows, and it has no request for this.
            Self::Agent(_) => Ok(()),
        }
    }

    fn step(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Note(_) => "note",
            Self::Agent(_) => "agent",
        }
    }

    fn survives_reboot(&self) -> bool {
        match self {
            // Each boot has its own store.
            Self::Claim(_) => false,
            // Spiderpool's records are in the cluster.
            Self::Note(_) | Self::Agent(_) => true,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(ClaimedAddress { owner, pool, address }) => {
                write!(f, "address {address} of pool {pool} for {owner}")
            }
            Self::Note(note) => note.fmt(f),
            Self::Agent(address) => write!(f, "addresses of {address}"),
        }
    }
}

/// Opens the address store of this boot, if it exists.
fn store(node: &Node) -> Result<Option<LocalStore>, Error> {
    Ok(LocalStore::open_existing(node.state.root(), journal::boot_id()?)?)
}
