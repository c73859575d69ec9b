//! ARP announcements sent as raw frames, for the addresses that the kernel cannot announce itself.
//!
//! Closing a packet socket takes 5 to 30 ms, because the kernel waits for every CPU.

use std::{
    io::{self, IoSlice},
    net::Ipv4Addr,
    os::fd::AsRawFd,
};

use identifiers::MacAddr;
use nix::{
    ifaddrs::getifaddrs,
    sys::socket::{
        AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, bind, sendmsg, socket,
    },
};

/// Announces addresses from a link of the calling thread's namespace.
///
/// # Errors
/// The system call's error.
pub(crate) fn announce(link: &str, mac: MacAddr, ips: &[Ipv4Addr]) -> io::Result<()> {
    let address = link_address(link)?;
    // Protocol 0 receives nothing.
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    bind(socket.as_raw_fd(), &address)?;
    for ip in ips {
        let frame = frame(mac, *ip);
        sendmsg::<LinkAddr>(socket.as_raw_fd(), &[IoSlice::new(&frame)], &[], MsgFlags::empty(), None)?;
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
    fn an_announcement_is_a_broadcast_request_for_the_own_address() {
        let frame = frame("02:00:00:00:00:01".parse().unwrap(), "172.81.0.100".parse().unwrap());
        assert_eq!(frame[..12], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1]);
        assert_eq!(frame[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!(frame[28..32], frame[38..42]);
        assert_eq!(frame[32..38], [0; 6]);
    }
}
