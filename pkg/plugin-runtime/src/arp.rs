//! ARP requests of RFC 5227 as raw frames: announcements of addresses that the kernel cannot announce itself, and probes, for which it
//! would use an address of another link.
//!
//! Closing a packet socket takes 5 to 30 ms, because the kernel waits for every CPU.

use std::{
    io::{self, IoSlice},
    net::Ipv4Addr,
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use identifiers::MacAddr;
use nix::{
    errno::Errno,
    ifaddrs::getifaddrs,
    sys::{
        socket::{
            AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrLike, bind, recv,
            sendmsg, setsockopt, socket, sockopt::ReceiveTimeout,
        },
        time::TimeVal,
    },
};

/// The length of a request on Ethernet.
const LEN: usize = 42;
/// How long one call waits for a frame.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);

/// Announces addresses from a link of the calling thread's namespace.
///
/// # Errors
/// The system call's error.
pub fn announce(link: &str, mac: MacAddr, ips: &[Ipv4Addr]) -> io::Result<()> {
    // Without a protocol it receives nothing.
    let socket = open(link, None)?;
    ips.iter().try_for_each(|ip| send(&socket, &frame(mac, *ip, *ip)))
}

/// Asks who has these addresses, over a link of the calling thread's namespace, and returns the first that another host has or
/// probes, with the MAC address of the host.
///
/// # Errors
/// The system call's error.
pub(crate) fn probe(
    link: &str,
    mac: MacAddr,
    ips: &[Ipv4Addr],
    timeout: Duration,
) -> io::Result<Option<(Ipv4Addr, MacAddr)>> {
    let socket = open(link, Some(SockProtocol::EthAll))?;
    setsockopt(
        &socket,
        ReceiveTimeout,
        &TimeVal::new(0, i64::try_from(RECEIVE_TIMEOUT.as_micros()).unwrap_or(0)),
    )?;
    for ip in ips {
        send(&socket, &frame(mac, Ipv4Addr::UNSPECIFIED, *ip))?;
    }
    let deadline = Instant::now() + timeout;
    let mut received = [0; LEN];
    while Instant::now() < deadline {
        match recv(socket.as_raw_fd(), &mut received, MsgFlags::empty()) {
            Ok(LEN) => {
                let claimed = claimed(&received).filter(|(ip, host)| ips.contains(ip) && *host != mac);
                if claimed.is_some() {
                    return Ok(claimed);
                }
            }
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(None)
}

fn open(link: &str, protocol: Option<SockProtocol>) -> io::Result<OwnedFd> {
    let address = link_address(link)?;
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    bind(socket.as_raw_fd(), &address)?;
    Ok(socket)
}

fn send(socket: &OwnedFd, frame: &[u8; LEN]) -> io::Result<()> {
    sendmsg::<LinkAddr>(socket.as_raw_fd(), &[IoSlice::new(frame)], &[], MsgFlags::empty(), None)?;
    Ok(())
}

fn link_address(link: &str) -> io::Result<LinkAddr> {
    let is_link = |address: &LinkAddr| address.family() == Some(AddressFamily::Packet);
    getifaddrs()?
        .filter(|entry| entry.interface_name == link)
        .find_map(|entry| entry.address?.as_link_addr().copied().filter(is_link))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("link {link} has no address")))
}

/// Returns a broadcast request. The sender of an announcement is the address itself, that of a probe is 0.0.0.0.
fn frame(mac: MacAddr, sender: Ipv4Addr, ip: Ipv4Addr) -> [u8; LEN] {
    let mut frame = [0; LEN];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&mac.bytes());
    frame[12..20].copy_from_slice(&ARP);
    frame[20..22].copy_from_slice(&[0, 1]);
    frame[22..28].copy_from_slice(&mac.bytes());
    frame[28..32].copy_from_slice(&sender.octets());
    frame[38..42].copy_from_slice(&ip.octets());
    frame
}

/// ARP, and the types and lengths of Ethernet and IPv4.
const ARP: [u8; 8] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4];

/// Returns the address that the sender of a frame has, or is about to have, and the sender's MAC address.
fn claimed(frame: &[u8; LEN]) -> Option<(Ipv4Addr, MacAddr)> {
    let (ethernet, packet) = frame.split_at(22);
    if ethernet[12..20] != ARP {
        return None;
    }
    let ip = |at: usize| {
        packet.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(Ipv4Addr::from)
    };
    let mac = MacAddr::from_bytes(packet.get(..6)?)?;
    let (sender, target) = (ip(6)?, ip(16)?);
    // A probe of another host for the same address (RFC 5227, 2.1.1).
    Some((if sender.is_unspecified() { target } else { sender }, mac))
}

#[cfg(test)]
mod tests {
    use testkit::{Observe, TestNode};

    use super::*;

    #[test]
    fn an_announcement_is_a_broadcast_request_for_the_own_address() {
        let ip = "172.81.0.100".parse().unwrap();
        let frame = frame("02:00:00:00:00:01".parse().unwrap(), ip, ip);
        assert_eq!(frame[..12], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1]);
        assert_eq!(frame[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!(frame[28..32], frame[38..42]);
        assert_eq!(frame[32..38], [0; 6]);
    }

    #[test]
    fn answers_and_probes_of_others_are_claims() {
        let (mac, ip): (MacAddr, Ipv4Addr) =
            ("02:00:00:00:00:01".parse().unwrap(), "10.0.0.5".parse().unwrap());
        let probe = frame(mac, Ipv4Addr::UNSPECIFIED, ip);
        assert_eq!(probe[28..32], [0; 4]);
        assert_eq!(claimed(&probe), Some((ip, mac)));
        let other: Ipv4Addr = "10.0.0.6".parse().unwrap();
        assert_eq!(claimed(&frame(mac, ip, other)), Some((ip, mac)));
        let mut reply = frame(mac, ip, other);
        reply[21] = 2;
        assert_eq!(claimed(&reply), Some((ip, mac)));
        let mut ip_packet = reply;
        ip_packet[13] = 0;
        assert_eq!(claimed(&ip_packet), None);
    }

    #[test]
    fn each_of_the_addresses_is_probed() {
        let node = TestNode::new();
        let far = node.pod("far");
        node.cable("rail0", &far, "far0");
        far.run_ip("address add 10.7.0.6/24 dev far0");
        let mac = |link: Option<serde_json::Value>| -> MacAddr {
            link.unwrap()["address"].as_str().unwrap().parse().unwrap()
        };
        let (own, host) = (mac(node.link("rail0")), mac(far.link("far0")));
        let probe = |ips: &[&str], timeout| {
            let ips: Vec<Ipv4Addr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
            probe("rail0", own, &ips, timeout).unwrap()
        };
        let found = probe(&["10.7.0.5", "10.7.0.6"], Duration::from_secs(10));
        assert_eq!(found, Some(("10.7.0.6".parse().unwrap(), host)));
        assert_eq!(probe(&["10.7.0.5", "10.7.0.7"], Duration::from_millis(40)), None);
    }
}
