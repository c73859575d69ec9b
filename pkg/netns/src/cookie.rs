//! A number that a namespace has for ever, and no other one has.
//!
//! The kernel opens some netlink sockets of its own in each new namespace, and a socket's inode number comes from a
//! counter: it comes again only after 2^32 others. `/proc/net/netlink` has shown it since Linux 3.9. `SO_NETNS_COOKIE`
//! (5.14) would be the same in one system call, but no library offers it without `unsafe`.

use std::{fs::File, io::Read};

/// One row of the file, and its heading. The kernel makes no more rows than are asked for, and the first are those of
/// the protocol that is looked for; the file shows this namespace's sockets, but the kernel walks over every one's.
const PROC_NET_ROW: usize = 256;

/// No namespace has so many sockets that the kernel's own one is not among these.
const MAX_PROC_NET_ROWS: usize = 1 << 20;

/// The cookie of the calling thread's namespace; `None` if `/proc` does not show it.
pub(crate) fn read() -> Option<u64> {
    let mut file = File::open("/proc/thread-self/net/netlink").ok()?;
    let (mut text, mut part) = (Vec::new(), [0; PROC_NET_ROW]);
    while text.len() < MAX_PROC_NET_ROWS {
        let length = file.read(&mut part).ok().filter(|length| *length > 0)?;
        text.extend_from_slice(&part[..length]);
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if let Some(cookie) = std::str::from_utf8(&text[..whole]).ok()?.lines().skip(1).find_map(of_row) {
            return Some(cookie);
        }
    }
    None
}

/// The inode number in the row of the kernel's own socket of `NETLINK_ROUTE`. A row is
/// `sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode`: the protocol is the second, the port (0) the third.
fn of_row(row: &str) -> Option<u64> {
    let words: Vec<&str> = row.split_ascii_whitespace().collect();
    let is_kernels = words.get(1..3) == Some(&["0", "0"]);
    words.get(9)?.parse().ok().filter(|inode| is_kernels && *inode != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_socket_is_told_from_others() {
        let row =
            |protocol, port, inode| format!("0000000000000000 {protocol} {port} 00000000 0 0 0 2 0 {inode}");
        assert_eq!(of_row(&row(0, 0, 257443)), Some(257443));
        for other in [row(0, 77, 1), row(16, 0, 1), row(0, 0, 0), "0 0 0 0 0 0 0 2 0".into(), String::new()] {
            assert_eq!(of_row(&other), None, "{other}");
        }
        assert_eq!(of_row("sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode"), None);
    }

    #[test]
    fn a_namespace_has_one_and_keeps_it() {
        let cookie = read();
        assert!(cookie.is_some_and(|cookie| cookie > 0), "{cookie:?}");
        // Whoever opens sockets in it.
        let _sockets: Vec<_> = (0..40)
            .map(|_| {
                nix::sys::socket::socket(
                    nix::sys::socket::AddressFamily::Netlink,
                    nix::sys::socket::SockType::Raw,
                    nix::sys::socket::SockFlag::empty(),
                    nix::sys::socket::SockProtocol::NetlinkRoute,
                )
                .unwrap()
            })
            .collect();
        assert_eq!(read(), cookie);
    }
}
