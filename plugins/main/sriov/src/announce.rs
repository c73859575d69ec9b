//! Telling the neighbours that an address has a new owner.
//!
//! The kernel announces addresses when a link comes up (`arp_notify`), but a VF has no carrier yet at that
//! moment and the announcement is lost. Neighbours that knew the address from a former pod would send to
//! its MAC until their entry expires.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, Ipv4Addr},
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

use addr::MacAddr;
use cni::AddResult;
use nix::{
    ifaddrs::getifaddrs,
    sys::socket::{
        AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, bind, sendmsg, socket,
    },
};
use plugin::{Error, Pod};
use rtnl::Link;
use tracing::debug;

/// How long the carrier may take. Without it nobody would hear.
const CARRIER: Duration = Duration::from_millis(200);

/// Announces the result's IPv4 addresses as soon as the link has its carrier. IPv6 does it by itself, when
/// duplicate address detection ends.
///
/// # Errors
/// If the pod cannot be looked at. That nobody could be told is none.
pub(crate) fn announce(pod: &Pod, link: &Link, result: &AddResult) -> Result<(), Error> {
    let ips = result.ips.iter().filter_map(|ip| match ip.address.ip() {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    });
    let (Some(mac), ips) = (link.mac, ips.collect::<Vec<_>>()) else { return Ok(()) };
    if ips.is_empty() || !wait_for_carrier(pod, link).unwrap_or(false) {
        return Ok(());
    }
    let frames: Vec<_> = ips.into_iter().map(|ip| frame(mac, ip)).collect();
    if let Err(error) = pod.netns.run(|| send(&link.name, &frames))? {
        debug!(%error, link = %link.name, "the pod's addresses could not be announced");
    }
    Ok(())
}

fn wait_for_carrier(pod: &Pod, link: &Link) -> Result<bool, Error> {
    let wait = |source| Error::Wait { what: "the carrier of a VF", source };
    let events = pod.netns.run(|| rtnl::events(false))?.map_err(wait)?;
    let deadline = Instant::now() + CARRIER;
    loop {
        if pod.links.link_by_index(link.index)?.running {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        events.wait(deadline, CARRIER).map_err(wait)?;
    }
}

/// Sends frames from a link of the calling thread's namespace.
fn send(link: &str, frames: &[[u8; 42]]) -> io::Result<()> {
    let address = link_address(link)?;
    // Protocol 0 receives nothing.
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    bind(socket.as_raw_fd(), &address)?;
    for frame in frames {
        sendmsg::<LinkAddr>(socket.as_raw_fd(), &[IoSlice::new(frame)], &[], MsgFlags::empty(), None)?;
    }
    Ok(())
}

fn link_address(link: &str) -> io::Result<LinkAddr> {
    let is_link = |address: &LinkAddr| address.family() == Some(AddressFamily::Packet);
    getifaddrs()?
        .filter(|entry| entry.interface_name == link)
        .find_map(|entry| entry.address?.as_link_addr().copied().filter(is_link))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("link {link} has no address")))
}

/// An ARP announcement (RFC 5227): a broadcast request for one's own address.
fn frame(mac: MacAddr, ip: Ipv4Addr) -> [u8; 42] {
    let mut frame = [0; 42];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&mac.bytes());
    frame[12..22].copy_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame[22..28].copy_from_slice(&mac.bytes());
    frame[28..32].copy_from_slice(&ip.octets());
    frame[38..42].copy_from_slice(&ip.octets());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_asks_everybody_for_the_own_address() {
        let frame = frame("02:00:00:00:00:01".parse().unwrap(), "172.81.0.100".parse().unwrap());
        assert_eq!(frame[..12], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1]);
        assert_eq!(frame[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!(frame[28..32], frame[38..42]);
        assert_eq!(frame[32..38], [0; 6]);
    }
}
