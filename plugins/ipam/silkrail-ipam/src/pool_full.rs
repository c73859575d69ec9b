//! What the error of a full pool says: it becomes the event of a pod that waits.

use std::collections::BTreeMap;

use ipam::{ClaimOwner, IpFamily, LocalStore, Pool};
use plugin_runtime::{Error, Node};

use crate::error::IpamError;

/// How many holders are named.
const MAX_NAMED_HOLDERS: usize = 3;

/// That no pool has a free address: which ones, how many they have, who holds them, what to do.
///
/// `unusable` is what may be the reason that there are no more pools.
pub(crate) fn error(node: &Node, store: &LocalStore, ifname: &str, pools: &[&Pool], unusable: &str) -> Error {
    let family = pools.first().map_or(IpFamily::V4, |pool| pool.family());
    let owners: BTreeMap<_, _> =
        store.claims().unwrap_or_default().into_iter().map(|claim| (claim.address, claim.owner)).collect();
    let full: Vec<_> = pools.iter().map(|pool| state(node, pool, &owners)).collect();
    let whose = if pools.len() == 1 { "its ips" } else { "their ips" };
    let msg = format!(
        "failed to allocate any {family} IP address to NIC {ifname}: all IP addresses used out: {}; \
         delete a pod that has one, extend {whose}, or see with `silkrail gc` what the dead still hold{unusable}",
        full.join("; ")
    );
    IpamError::Full(msg).into()
}

/// `IPPool rail (10.7.0.10-10.7.0.11): 2 of 2 given on this node, to ai/worker-0, ai/worker-1`.
fn state(node: &Node, pool: &Pool, owners: &BTreeMap<std::net::IpAddr, ClaimOwner>) -> String {
    let all = pool.ranges.len().saturating_add(pool.given.len() as u128);
    if all == 0 {
        return format!("IPPool {} has no address to give", pool.name);
    }
    let holders: Vec<_> = owners
        .iter()
        .filter(|(address, _)| pool.ranges.contains(**address))
        .map(|(_, owner)| owner)
        .collect();
    let mut text =
        format!("IPPool {} ({}): {} of {all} given on this node", pool.name, pool.ranges, holders.len());
    let named: Vec<_> = holders.iter().take(MAX_NAMED_HOLDERS).map(|owner| name(node, owner)).collect();
    if !named.is_empty() {
        text += &format!(", to {}", named.join(", "));
    }
    if holders.len() > named.len() {
        text += &format!(" and {} more", holders.len() - named.len());
    }
    if !pool.given.is_empty() {
        text += &format!(", {} of {all} given by Spiderpool, by the pool's status", pool.given.len());
    }
    text
}

/// The pod of a holder, where the runtime told, or else the container.
fn name(node: &Node, owner: &ClaimOwner) -> String {
    let ClaimOwner::Attachment(attachment) = owner else { return owner.to_string() };
    match node.state.podmap().read(attachment) {
        Ok(Some(entry)) if entry.pod.is_some() => {
            entry.pod.map(|pod| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default()
        }
        // As `crictl` and `podman` print it.
        _ => format!("container {:.12} ({})", attachment.container_id.as_str(), attachment.ifname),
    }
}
