//! TCP ports over which the two ends of perftest exchange their addresses.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
};

/// Returns the first of `tries` ports from `first` on that no socket listens on.
///
/// perftest takes a port number, not a socket. Another process can take the port before perftest listens; then perftest
/// fails and the next port is tried.
pub fn free_port(first: u16, tries: u16) -> Option<u16> {
    let ports = (0..tries).map_while(|more| first.checked_add(more));
    // `SO_REUSEADDR`, which std sets, does not permit two listeners.
    ports.into_iter().find(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok())
}

/// Whether a socket of this network namespace listens on a port, according to `/proc/self/net/tcp` and `tcp6`.
pub fn is_listening(port: u16) -> bool {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    tables.iter().any(|table| fs::read_to_string(table).is_ok_and(|text| has_listener(&text, port)))
}

fn has_listener(table: &str, port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|local| local.ends_with(&wanted)) && columns.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_skipped() {
        let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(is_listening(port));
        assert_eq!(free_port(port, 1), None);
        assert_ne!(free_port(port.min(u16::MAX - 64), 64), Some(port));
        assert_eq!(free_port(u16::MAX, 9).filter(|port| *port != u16::MAX), None, "ports end at 65535");
    }

    #[test]
    fn a_connection_is_not_a_listener() {
        let head = "  sl  local_address rem_address   st\n";
        assert!(has_listener(&format!("{head}   0: 00000000:4853 00000000:0000 0A 00000000"), 18515));
        assert!(!has_listener(&format!("{head}   0: 0100007F:4853 0100007F:9C40 01 00000000"), 18515));
        assert!(!has_listener(&format!("{head}   0: 00000000:0016 00000000:0000 0A 00000000"), 18515));
    }
}
