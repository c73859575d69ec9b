//! What an ADD changes on the node: claims of addresses.
#![warn(clippy::wildcard_enum_match_arm)]

use std::{fmt, net::IpAddr};

use addr::Attachment;
use cni::Code;
use ipam::{LocalStore, Owner};
use plugin::{Error, Node};
use serde::{Deserialize, Serialize};

/// A change on the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Change {
    /// An address was claimed.
    Claim(Claim),
}

/// The claim of an address. Its owner is how it is known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) owner: Attachment,
    pub(crate) pool: String,
    pub(crate) address: IpAddr,
}

impl journal::Change for Change {
    type Node = Node;
    type Error = Error;

    fn revert(&self, node: &Node) -> Result<(), Error> {
        let Self::Claim(Claim { owner, pool, address }) = self;
        let Some(store) = store(node)? else { return Ok(()) };
        store.release(Some(pool), *address, owner)?;
        Ok(())
    }

    fn verify(&self, node: &Node) -> Result<(), Error> {
        let Self::Claim(Claim { owner, address, .. }) = self;
        let found = store(node)?.map_or(Ok(None), |store| store.owner(*address))?;
        match found {
            Some(Owner::Attachment(is)) if is == *owner => Ok(()),
            Some(other) => changed(format!("address {address} belongs to {other}, not to {owner}")),
            None => changed(format!("address {address} of {owner} is not claimed any more")),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Claim(Claim { owner, pool, address }) = self;
        write!(f, "address {address} of pool {pool} for {owner}")
    }
}

/// The store of this boot, if there is one.
fn store(node: &Node) -> Result<Option<LocalStore>, Error> {
    Ok(LocalStore::open_existing(node.state.root(), &journal::boot_id())?)
}

fn changed(msg: String) -> Result<(), Error> {
    Err(cni::Error::new(Code::CHANGED, msg).into())
}
