//! Probes whether another host of the network has an address that a pod is about to get.

use std::{net::Ipv4Addr, thread, time::Duration};

use cni::AddResult;
use ipnetwork::IpNetwork;
use rtnl::Link;
use tracing::{info, warn};

use crate::{Budget, Error, PodNetns, arp, link_up};

/// Whether the addresses of a pod are probed before it gets them: `detectIPConflict`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConflictDetection {
    /// They are not.
    #[default]
    Off,
    /// Another host that answers makes the ADD fail.
    On,
}

/// How often an address is probed.
const PROBES: u32 = 2;
/// How long an answer to a probe may take.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
/// How long to wait for the carrier.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(2);
/// The delay between two looks at the carrier.
const POLL_DELAY: Duration = Duration::from_millis(5);

/// Probes the IPv4 addresses of a result. The kernel probes the IPv6 ones itself. The link is down afterwards, so that the kernel
/// announces its addresses when it comes up.
///
/// # Errors
/// [`Error::AddressInUse`]; if the kernel refuses a request.
pub(crate) fn probe(pod: &PodNetns, link: &Link, result: &AddResult) -> Result<(), Error> {
    let addresses: Vec<_> = result
        .ips
        .iter()
        .filter_map(|ip| match ip.address {
            IpNetwork::V4(address) => Some(address.ip()),
            IpNetwork::V6(_) => None,
        })
        .collect();
    let Some(mac) = link.mac else {
        info!(link = %link.name, "its addresses are not probed: it is not an Ethernet link");
        return Ok(());
    };
    if addresses.is_empty() {
        return Ok(());
    }
    link_up::set_up(pod, link)?;
    let probed = probe_all(pod, link, mac, &addresses);
    pod.links.set_up(link.index, false)?;
    probed
}

fn probe_all(
    pod: &PodNetns,
    link: &Link,
    mac: identifiers::MacAddr,
    addresses: &[Ipv4Addr],
) -> Result<(), Error> {
    if !wait_for_carrier(pod, link)? {
        warn!(link = %link.name, "its addresses are not probed: it has no carrier");
        return Ok(());
    }
    for _ in 0..PROBES {
        match pod.run(|| arp::probe(&link.name, mac, addresses, ANSWER_TIMEOUT))? {
            Ok(None) => {}
            Ok(Some((address, mac))) => {
                return Err(Error::AddressInUse { address, mac, link: link.name.clone() });
            }
            // A queue is full, or the link went down.
            Err(error) => warn!(%error, link = %link.name, "its addresses were not probed"),
        }
    }
    Ok(())
}

fn wait_for_carrier(pod: &PodNetns, link: &Link) -> Result<bool, Error> {
    let budget = Budget::of_call();
    let deadline = budget.until("the carrier", CARRIER_TIMEOUT);
    loop {
        if pod.links.link_by_index(link.index)?.running {
            return Ok(true);
        }
        if deadline.has_passed() {
            return Ok(false);
        }
        thread::sleep(POLL_DELAY);
    }
}
