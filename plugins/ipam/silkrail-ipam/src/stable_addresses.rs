//! Addresses that a pod keeps when it is created again under the same name, on any node.
//!
//! They are from pools whose blocks have one address, so that the block of an address can move to another node.

use std::net::IpAddr;

use cni::AddRequest;
use ipam::{AgentRequest, LocalStore, ReservedAddress, StoreError};
use plugin_runtime::{Error, Node};

use crate::{change::ClaimedAddress, conf::IpamConf, error::IpamError};

/// Reserves the addresses of an ADD for the pod, if it has a stable name, for the next time it is created.
///
/// # Errors
/// If they cannot be reserved.
pub(crate) fn reserve(
    node: &Node,
    store: &LocalStore,
    request: &AddRequest<'_>,
    conf: &IpamConf,
    claims: &[ClaimedAddress],
) -> Result<(), Error> {
    let (Some(cluster), Some(pod), true) =
        (&conf.cluster, request.common.args.get("K8S_POD_UID"), conf.is_stable())
    else {
        return Ok(());
    };
    let blocks = store.blocks()?;
    let can_move = |claim: &&ClaimedAddress| {
        blocks.iter().any(|block| block.size().addresses() == 1 && block.contains(claim.address))
    };
    let addresses: Vec<_> = claims
        .iter()
        .filter(can_move)
        .map(|claim| ReservedAddress { pool: claim.pool.clone(), address: claim.address })
        .collect();
    let interface = request.attachment.ifname.as_str();
    let before = conf.reserved_addresses(interface);
    if addresses.is_empty() || addresses == before {
        return Ok(());
    }
    let replaces = !before.is_empty();
    cluster.reserve(node, AgentRequest::Reserve { pod, interface, addresses: &addresses, replaces })
}

/// Returns the error for a reserved address that the pod cannot have at present: its former pod may not be gone yet.
pub(crate) fn try_again(address: IpAddr, error: Error) -> Error {
    match error {
        Error::Address(error @ (StoreError::Taken { .. } | StoreError::NoBlock { .. })) => {
            let text = format!(
                "address {address} is reserved for this pod: {error}; try again later, or delete its IPReservation for another address"
            );
            IpamError::BlockUnavailable(text).into()
        }
        other => other,
    }
}
