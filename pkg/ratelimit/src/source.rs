//! Sources of connections, as networks: one host can use many addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the address by which a host is limited: an IPv4 address, or the /64 network of an IPv6 address, all addresses of
/// which one host can use.
pub fn host_prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Returns the network that probably has one owner: an IPv4 /24, or an IPv6 /48, the usual size for a site.
pub fn site_prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() >> 8 << 8).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 80 << 80).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_and_of_one_site_are_equal() {
        for (address, host, site) in [
            ("10.1.2.3", "10.1.2.3", "10.1.2.0"),
            ("::ffff:10.1.2.3", "10.1.2.3", "10.1.2.0"),
            ("fd00:1:2:3:4:5:6:7", "fd00:1:2:3::", "fd00:1:2::"),
            ("255.255.255.255", "255.255.255.255", "255.255.255.0"),
            ("fd00:1:2:ffff:ffff::", "fd00:1:2:ffff::", "fd00:1:2::"),
            ("::1", "::", "::"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(host_prefix(address), host.parse::<IpAddr>().unwrap());
            assert_eq!(site_prefix(address), site.parse::<IpAddr>().unwrap());
        }
    }
}
