//! A cookie: a number that identifies a namespace and is not reused.
//!
//! The kernel opens netlink sockets of its own in each new namespace. The inode number of a socket comes from a counter,
//! which repeats only after 2^32 numbers. `/proc/net/netlink` shows it since Linux 3.9. `SO_NETNS_COOKIE` (5.14) provides
//! such a number in one system call, but no library supports it without `unsafe`.

use std::{fs::File, io::Read};

/// The size of the header and one row. The kernel generates only the rows that are read, and the rows of `NETLINK_ROUTE`
/// are first. Short reads are faster, because the kernel iterates over the sockets of all namespaces.
const PROC_NET_ROW: usize = 256;

/// An upper limit of the text that is searched for the socket of the kernel.
const MAX_PROC_NET_ROWS: usize = 1 << 20;

/// Reads the cookie of the calling thread's namespace; `None` if `/proc` does not show it.
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

/// Returns the inode number if this is the row of the kernel's `NETLINK_ROUTE` socket. The columns are
/// `sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode`: the second is the protocol, the third the port (0).
fn of_row(row: &str) -> Option<u64> {
    let words: Vec<&str> = row.split_ascii_whitespace().collect();
    let is_kernels = words.get(1..3) == Some(&["0", "0"]);
    words.get(9)?.parse().ok().filter(|inode| is_kernels && *inode != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_row_of_the_kernel_socket_matches() {
        let row =
            |protocol, port, inode| format!("0000000000000000 {protocol} {port} 00000000 0 0 0 2 0 {inode}");
        assert_eq!(of_row(&row(0, 0, 257443)), Some(257443));
        for other in [row(0, 77, 1), row(16, 0, 1), row(0, 0, 0), "0 0 0 0 0 0 0 2 0".into(), String::new()] {
            assert_eq!(of_row(&other), None, "{other}");
        }
        assert_eq!(of_row("sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode"), None);
    }

    #[test]
    fn the_cookie_of_a_namespace_does_not_change() {
        let cookie = read();
        assert!(cookie.is_some_and(|cookie| cookie > 0), "{cookie:?}");
        // Other sockets in the namespace do not change the cookie.
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
