//! Addresses of connections.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use nix::libc::{AF_INET, AF_INET6};

/// Returns the address in a `sockaddr_storage`; `None` if it is of another family, or truncated.
pub(super) fn address(storage: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = storage.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let port = u16::from_be_bytes(*port);
    match i32::from(u16::from_ne_bytes(*family)) {
        AF_INET => Some((Ipv4Addr::from(*rest.first_chunk::<4>()?), port).into()),
        AF_INET6 => {
            let (flow, rest) = rest.split_first_chunk()?;
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            let scope = u32::from_ne_bytes(*rest.first_chunk()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(*ip), port, u32::from_be_bytes(*flow), scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(family: i32, rest: &[u8]) -> Vec<u8> {
        let family = u16::try_from(family).unwrap();
        let mut bytes = [&family.to_ne_bytes(), rest].concat();
        bytes.resize(128, 0);
        bytes
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let four = storage(AF_INET, &[0x1f, 0x90, 192, 0, 2, 7]);
        assert_eq!(address(&four), Some("192.0.2.7:8080".parse().unwrap()));
        let ip = "2001:db8::7".parse::<Ipv6Addr>().unwrap().octets();
        let six = storage(AF_INET6, &[&[0x1f, 0x90, 0, 0, 0, 0][..], &ip].concat());
        assert_eq!(address(&six), Some("[2001:db8::7]:8080".parse().unwrap()));
    }

    #[test]
    fn a_truncated_address_or_one_of_another_family_is_refused() {
        assert_eq!(address(&storage(27, &[1; 20])), None);
        assert_eq!(address(&storage(AF_INET, &[0x1f, 0x90, 192, 0, 2, 7])[..7]), None);
        assert_eq!(address(&[]), None);
    }
}
