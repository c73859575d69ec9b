//! The addresses that are claimed on this node, with their pods and blocks.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use ipam::{ClaimOwner, IpBlock, LocalStore, PoolUsage};
use podmap::PodMap;
use serde::Serialize;
use state::StateDir;

use crate::exit::CommandError;

/// The arguments that all of these commands have.
#[derive(Debug, clap::Args)]
pub(super) struct StoreArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    pub(super) state_dir: PathBuf,
}

/// What the store of this boot contains.
#[derive(Debug, Default)]
pub(super) struct NodeAddresses {
    /// The claims, sorted by address.
    pub(super) addresses: Vec<AddressRow>,
    /// The pools that were used since boot.
    pub(super) pools: Vec<PoolUsage>,
    /// The blocks of the cluster's pools that the node has.
    pub(super) blocks: Vec<IpBlock>,
    /// Those that it is about to release, or has lost.
    pub(super) withdrawn: Vec<IpBlock>,
}

/// A claimed address.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddressRow {
    /// The address.
    pub(super) address: IpAddr,
    /// `container@ifname`, or the text that is in its place.
    pub(super) owner: String,
    /// Whether the owner is an attachment.
    #[serde(skip)]
    pub(super) is_attachment: bool,
    /// The namespace and the name of the pod.
    pub(super) namespace: Option<String>,
    /// The name of the pod.
    pub(super) pod: Option<String>,
    /// The UID of the pod.
    pub(super) pod_uid: Option<String>,
    /// The network.
    pub(super) network: Option<String>,
    /// The block of the cluster that contains the address.
    pub(super) block: Option<String>,
}

impl NodeAddresses {
    /// Reads the store; nothing if no address was assigned since boot.
    pub(super) fn read(root: &Path, state: &Path) -> Result<Self, CommandError> {
        let Some(store) = store(root, state)? else { return Ok(Self::default()) };
        let (blocks, withdrawn) = (store.blocks()?, store.withdrawn()?);
        let pods = PodMap::below(state);
        let row = |claim: ipam::AddressClaim| {
            let entry = match &claim.owner {
                ClaimOwner::Attachment(attachment) => pods.read(attachment).ok().flatten(),
                ClaimOwner::Unknown(_) => None,
            };
            let pod = entry.as_ref().and_then(|entry| entry.pod.clone());
            let block = blocks.iter().chain(&withdrawn).find(|block| block.contains(claim.address));
            AddressRow {
                address: claim.address,
                is_attachment: matches!(claim.owner, ClaimOwner::Attachment(_)),
                owner: claim.owner.to_string(),
                namespace: pod.as_ref().map(|pod| pod.namespace.clone()),
                pod_uid: pod.as_ref().and_then(|pod| pod.uid.clone()),
                pod: pod.map(|pod| pod.name),
                network: entry.map(|entry| entry.network.name),
                block: block.map(|block| block.cidr()),
            }
        };
        let addresses = store.claims()?.into_iter().map(row).collect();
        Ok(Self { addresses, pools: store.usage()?, blocks, withdrawn })
    }
}

/// Opens the store of this boot; `None` if no address was assigned since.
pub(super) fn store(root: &Path, state: &Path) -> Result<Option<LocalStore>, CommandError> {
    let boot_id = bootid::below(root)
        .map_err(|source| CommandError::Input { path: root.join(bootid::FILE), source })?;
    Ok(LocalStore::open_existing(state, &boot_id)?)
}
