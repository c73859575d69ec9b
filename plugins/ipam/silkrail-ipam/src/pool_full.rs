//! The error of a full pool, which kubelet shows in the events of a waiting pod.

use std::collections::BTreeMap;

use ipam::{ClaimOwner, IpFamily, LocalStore, Pool};
use plugin_runtime::{Error, Node};

use crate::error::IpamError;

/// The maximum number of owners in the message.
const MAX_LISTED_OWNERS: usize = 3;

/// Returns the error that no pool has a free address: the pools, their sizes, the owners of the addresses and the remedy.
///
/// `unusable` lists pool files that cannot be used and might contain further pools; see `Pools::unusable`.
pub(crate) fn error(node: &Node, store: &LocalStore, ifname: &str, pools: &[&Pool], unusable: &str) -> Error {
    let family = pools.first().map_or(IpFamily::V4, |pool| pool.family());
    let owners: BTreeMap<_, _> =
        store.claims().unwrap_or_default().into_iter().map(|claim| (claim.address, claim.owner)).collect();
    let full: Vec<_> = pools.iter().map(|pool| state(node, pool, &owners)).collect();
    let ranges = if pools.len() == 1 { "its ips" } else { "their ips" };
    let msg = format!(
        "failed to allocate any {family} IP address to NIC {ifname}: all IP addresses used out: {}; \
         delete a pod that uses one, extend {ranges}, or list stale claims with `silkrail gc`{unusable}",
        full.join("; ")
    );
    IpamError::Full(msg).into()
}

/// Describes one pool: `IPPool rail (10.7.0.10-10.7.0.11): 2 of 2 allocated on this node, to ai/worker-0, ai/worker-1`.
fn state(node: &Node, pool: &Pool, owners: &BTreeMap<std::net::IpAddr, ClaimOwner>) -> String {
    let all = pool.ranges.len().saturating_add(pool.given.len() as u128);
    if all == 0 {
        return format!("IPPool {} has no usable addresses", pool.name);
    }
    let users: Vec<_> = owners
        .iter()
        .filter(|(address, _)| pool.ranges.contains(**address))
        .map(|(_, owner)| owner)
        .collect();
    let mut text =
        format!("IPPool {} ({}): {} of {all} allocated on this node", pool.name, pool.ranges, users.len());
    let listed: Vec<_> = users.iter().take(MAX_LISTED_OWNERS).map(|owner| name(node, owner)).collect();
    if !listed.is_empty() {
        text += &format!(", to {}", listed.join(", "));
    }
    if users.len() > listed.len() {
        text += &format!(" and {} more", users.len() - listed.len());
    }
    if !pool.given.is_empty() {
        text += &format!(
            ", {} of {all} allocated by Spiderpool according to the pool's status",
            pool.given.len()
        );
    }
    text
}

/// Returns `namespace/name` of the owner's pod, or its container if the pod map does not contain the pod.
fn name(node: &Node, owner: &ClaimOwner) -> String {
    let ClaimOwner::Attachment(attachment) = owner else { return owner.to_string() };
    match node.state.podmap().read(attachment) {
        Ok(Some(entry)) if entry.pod.is_some() => {
            entry.pod.map(|pod| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default()
        }
        // `crictl` and `podman` print the first digits of an ID, too.
        _ => format!("container {:.12} ({})", attachment.container_id.as_str(), attachment.ifname),
    }
}
