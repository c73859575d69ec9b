//! Announcing to the neighbours that an address has a new MAC address.
//!
//! The kernel announces addresses when a link comes up (`arp_notify`), but a VF has no carrier yet at that
//! moment and the announcement is lost. Neighbours that have an entry of a former pod would send to that pod's MAC until
//! the entry expires.

use std::{net::Ipv4Addr, time::Duration};

use cni::AddResult;
use ipnetwork::{IpNetwork, Ipv4Network};
use plugin_runtime::{Budget, Error, PodNetns, arp};
use rtnl::Link;
use tracing::debug;

/// How long to wait for the carrier, without which the announcement would be lost.
const ANNOUNCE_CARRIER_TIMEOUT: Duration = Duration::from_millis(200);

/// Announces the result's IPv4 addresses as soon as the link has a carrier. The kernel announces IPv6 addresses when
/// duplicate address detection ends (`ndisc_notify`).
///
/// # Errors
/// If the pod's namespace or links cannot be read. A failed announcement is only logged.
pub fn announce(pod: &PodNetns, link: &Link, result: &AddResult) -> Result<(), Error> {
    let ips = result.ips.iter().filter_map(|ip| match ip.address {
        IpNetwork::V4(ip) => Some(ip),
        IpNetwork::V6(_) => None,
    });
    let ips: Vec<_> = ips.collect();
    if ips.is_empty() || !wait_for_carrier(pod, link).unwrap_or(false) {
        return Ok(());
    }
    let (own, others): (Vec<Ipv4Addr>, Vec<_>) =
        ips.iter().map(|ip| ip.ip()).partition(|ip| is_alone(*ip, &ips));
    let failed = |error: &dyn std::fmt::Display| {
        debug!(%error, link = %link.name, "failed to announce the pod's addresses");
    };
    for ip in own {
        let _ = pod.links.request_announcement(link.index, ip).inspect_err(|error| failed(error));
    }
    if let Some(mac) = link.mac.filter(|_| !others.is_empty()) {
        let _ = pod.netns.run(|| arp::announce(&link.name, mac, &others))?.inspect_err(|error| failed(error));
    }
    Ok(())
}

/// Whether no other address has this one in its subnet. Only then does the kernel use it as the sender of the request.
fn is_alone(ip: Ipv4Addr, all: &[Ipv4Network]) -> bool {
    all.iter().all(|other| other.ip() == ip || !other.contains(ip))
}

fn wait_for_carrier(pod: &PodNetns, link: &Link) -> Result<bool, Error> {
    let is_running = || Ok::<_, Error>(pod.links.link_by_index(link.index)?.running);
    if is_running()? {
        return Ok(true);
    }
    let wait = |source| Error::Wait { what: "the carrier of a VF", source };
    let events = pod.netns.run(|| rtnl::events(false))?.map_err(wait)?;
    let budget = Budget::of_call();
    let deadline = budget.until("the carrier", ANNOUNCE_CARRIER_TIMEOUT);
    loop {
        if is_running()? {
            return Ok(true);
        }
        if deadline.has_passed() {
            return Ok(false);
        }
        events.wait(deadline.at(), ANNOUNCE_CARRIER_TIMEOUT).map_err(wait)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_shares_its_subnet_is_not_the_kernels_to_announce() {
        let alone = |ips: &[&str]| {
            let ips: Vec<Ipv4Network> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
            ips.iter().map(|ip| is_alone(ip.ip(), &ips)).collect::<Vec<_>>()
        };
        assert_eq!(alone(&["10.9.0.2/24", "10.8.0.2/24", "10.7.0.1/32"]), [true, true, true]);
        assert_eq!(alone(&["10.9.0.2/24", "10.9.0.3/24"]), [false, false]);
        assert_eq!(
            alone(&["10.9.0.2/16", "10.9.1.3/24"]),
            [true, false],
            "the kernel would send the request for the second from the first"
        );
    }
}
