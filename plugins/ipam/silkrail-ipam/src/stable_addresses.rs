//! Addresses that a pod keeps when it is created again under the same name, on any node.
//!
//! They are from pools whose blocks have one address, so that the block of an address can move to another node.

use std::net::IpAddr;

use cni::AddRequest;
use ipam::{AgentRequest, LocalStore, ReservedAddress, StoreError};
use plugin_runtime::{Condition, Error, Node};

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
    // Also those that the agent tries to release at this moment, and offers again.
    let blocks = [store.blocks()?, store.withdrawn()?, store.blocks()?].concat();
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
    if addresses == before && !conf.is_reservation_outdated(interface) {
        return Ok(());
    }
    cluster.reserve(node, AgentRequest::Reserve { pod, interface, addresses: &addresses, before })
}

/// Returns the claim of a reserved address; `None` if it can never be had, since its block has other addresses and another node has
/// it.
///
/// # Errors
/// If it cannot be had at present: the former pod may not be gone yet.
pub(crate) fn unless_it_cannot_move(
    claimed: Result<ClaimedAddress, Error>,
    address: IpAddr,
) -> Result<Option<ClaimedAddress>, Error> {
    let later = |error: String| {
        let text = format!(
            "address {address} is reserved for this pod: {error}; if its former pod is gone, see `silkrail gc` on its node; delete the \
             IPReservation for another address"
        );
        Err(IpamError::BlockUnavailable(text).into())
    };
    match claimed {
        Ok(claimed) => Ok(Some(claimed)),
        Err(Error::Address(error @ (StoreError::Taken { .. } | StoreError::NoBlock { .. }))) => {
            later(error.to_string())
        }
        Err(Error::Plugin(error)) => match error.condition() {
            Condition::NoAddress => Ok(None),
            Condition::TryAgain => later(error.to_string()),
            _ => Err(Error::Plugin(error)),
        },
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use ipam::ClaimOwner;

    use super::*;

    #[test]
    fn a_reserved_address_is_waited_for_unless_it_can_never_be_had() {
        let address: IpAddr = [10, 0, 0, 5].into();
        let claim = ClaimedAddress { owner: "a@net1".parse().unwrap(), pool: "p".to_owned(), address };
        assert_eq!(unless_it_cannot_move(Ok(claim.clone()), address).unwrap(), Some(claim));
        assert_eq!(
            unless_it_cannot_move(Err(IpamError::NoBlock("x".to_owned()).into()), address).unwrap(),
            None
        );
        let owner = ClaimOwner::Unknown("former".to_owned());
        for later in [
            StoreError::Taken { address, owner }.into(),
            StoreError::NoBlock { address, pool: "p".parse().unwrap() }.into(),
            IpamError::BlockUnavailable("x".to_owned()).into(),
        ] {
            let error = unless_it_cannot_move(Err(later), address).unwrap_err();
            assert!(
                matches!(&error, Error::Plugin(error) if error.condition() == Condition::TryAgain),
                "{error}"
            );
            assert!(error.to_string().starts_with("address 10.0.0.5 is reserved for this pod: "), "{error}");
        }
        for other in [StoreError::BootId("x".to_owned()).into(), IpamError::MatchMasterSubnet.into()] {
            let error = unless_it_cannot_move(Err(other), address).unwrap_err().to_string();
            assert!(!error.contains("is reserved for this pod"), "{error}");
        }
    }
}
