//! A range of addresses, an item of a pool's `ips` and `excludeIPs`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use crate::IpFamily;

/// An inclusive range of addresses of one family: `172.81.0.100-172.81.0.120` or a single `172.18.40.10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpRange {
    first: IpAddr,
    last: IpAddr,
}

/// A string is not a valid range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIpRange {
    /// Neither an address nor a range of two addresses.
    #[error("range {0:?}: expected an address like 10.0.0.5 or a range like 10.0.0.5-10.0.0.9")]
    Text(String),
    /// The range contains white space, which some programs ignore and others refuse.
    #[error("range {0:?} contains white space; write the two addresses with only a '-' between them")]
    Blanks(String),
    /// The value is a subnet in CIDR notation.
    #[error("range {0:?} is a subnet; write its first and last address with a '-' between them")]
    Subnet(String),
    /// The addresses belong to different families.
    #[error("range {0:?} mixes IPv4 and IPv6")]
    Mixed(String),
    /// The first address is higher than the last.
    #[error("range {text:?} is reversed; write {last}-{first}")]
    Reversed {
        /// The range as written.
        text: String,
        /// The first address as written.
        first: IpAddr,
        /// The last address as written.
        last: IpAddr,
    },
    /// An IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2), which some programs treat as IPv4 and others as IPv6.
    #[error("range {0:?} contains an IPv4-mapped IPv6 address; write the IPv4 address")]
    Mapped(String),
}

impl IpRange {
    /// Returns the range from `first` to `last`; `None` if their families differ or they are reversed.
    pub(crate) fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        (IpFamily::of(first) == IpFamily::of(last) && first <= last).then_some(Self { first, last })
    }

    /// Returns the range of addresses that differ from `address` only in their lowest `bits`, at most 32.
    pub(crate) fn aligned(address: IpAddr, bits: u8) -> Self {
        let mask = u32::MAX.checked_shr(32 - u32::from(bits.min(32))).unwrap_or(0);
        let (first, last) = match address {
            IpAddr::V4(v4) => {
                let number = u32::from(v4);
                (Ipv4Addr::from(number & !mask).into(), Ipv4Addr::from(number | mask).into())
            }
            IpAddr::V6(v6) => {
                let (number, mask) = (u128::from(v6), u128::from(mask));
                (Ipv6Addr::from(number & !mask).into(), Ipv6Addr::from(number | mask).into())
            }
        };
        Self { first, last }
    }

    /// Returns the lowest address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// Returns the highest address, which is included.
    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// Returns the family of the addresses.
    pub fn family(&self) -> IpFamily {
        IpFamily::of(self.first)
    }

    /// Returns all addresses in ascending order.
    pub fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let family = self.family();
        (number(self.first)..=number(self.last)).filter_map(move |number| address(family, number))
    }

    /// Whether the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        IpFamily::of(address) == self.family() && self.first <= address && address <= self.last
    }

    /// Whether the two ranges share an address.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.family() == other.family() && self.first <= other.last && other.first <= self.last
    }
}

impl From<IpAddr> for IpRange {
    fn from(address: IpAddr) -> Self {
        Self { first: address, last: address }
    }
}

impl FromStr for IpRange {
    type Err = InvalidIpRange;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidIpRange::Text(text.to_owned());
        if text.contains(char::is_whitespace) {
            return Err(InvalidIpRange::Blanks(text.to_owned()));
        }
        if text.contains('/') {
            return Err(InvalidIpRange::Subnet(text.to_owned()));
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let first: IpAddr = first.parse().map_err(|_| invalid())?;
        let last: IpAddr = last.parse().map_err(|_| invalid())?;
        let mapped = |address| matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
        if mapped(first) || mapped(last) {
            return Err(InvalidIpRange::Mapped(text.to_owned()));
        }
        if IpFamily::of(first) != IpFamily::of(last) {
            return Err(InvalidIpRange::Mixed(text.to_owned()));
        }
        if first > last {
            return Err(InvalidIpRange::Reversed { text: text.to_owned(), first, last });
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// The address as a number. Only numbers of one family can be compared.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

/// The address of that number; `None` if the family has no such address.
pub(crate) fn address(family: IpFamily, number: u128) -> Option<IpAddr> {
    match family {
        IpFamily::V4 => u32::try_from(number).ok().map(|number| Ipv4Addr::from(number).into()),
        IpFamily::V6 => Some(Ipv6Addr::from(number).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> InvalidIpRange {
        let error = text.parse::<IpRange>().unwrap_err();
        assert!(error.to_string().contains(&format!("{text:?}")), "{error} must name {text:?}");
        error
    }

    #[test]
    fn ranges_are_read_and_printed_canonically() {
        for (text, printed) in [
            ("172.18.40.10", "172.18.40.10"),
            ("172.81.0.100-172.81.0.120", "172.81.0.100-172.81.0.120"),
            ("10.0.0.1-10.0.0.1", "10.0.0.1"),
            ("FD00:0::A-fd00:0:0::00ff", "fd00::a-fd00::ff"),
        ] {
            assert_eq!(text.parse::<IpRange>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn ipam_case_003_a_reversed_range_is_refused() {
        let error = refused("10.0.0.10-10.0.0.1");
        assert!(error.to_string().contains("write 10.0.0.1-10.0.0.10"), "{error}");
        assert!(matches!(refused("fd00::2-fd00::1"), InvalidIpRange::Reversed { .. }));
    }

    #[test]
    fn ipam_case_004_a_subnet_is_refused() {
        assert!(matches!(refused("172.18.40.0/24"), InvalidIpRange::Subnet(_)));
        assert!(matches!(refused("10.0.0.1-10.0.0.9/24"), InvalidIpRange::Subnet(_)));
    }

    #[test]
    fn ipam_case_007_white_space_is_refused() {
        for text in ["10.0.0.1 - 10.0.0.9", "10.0.0.1 -10.0.0.9", " 10.0.0.1", "10.0.0.1\n", "10.0.0.1\u{a0}"]
        {
            assert!(matches!(refused(text), InvalidIpRange::Blanks(_)), "{text:?}");
        }
    }

    #[test]
    fn ipam_case_008_ipv4_mapped_ipv6_is_refused() {
        assert!(matches!(refused("::ffff:1.2.3.4"), InvalidIpRange::Mapped(_)));
        assert!(matches!(refused("::fffe:0:0-::ffff:0:1"), InvalidIpRange::Mapped(_)));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "-", "10.0.0", "10.0.0.1-", "-10.0.0.1", "10.0.0.1-9", "10.0.0.1-10.0.0.2-10.0.0.3"]
        {
            assert!(matches!(refused(text), InvalidIpRange::Text(_)), "{text:?}");
        }
        for text in ["10.0.0.01", "fe80::1%eth0", "256.0.0.1", "node1"] {
            assert!(matches!(refused(text), InvalidIpRange::Text(_)), "{text:?}");
        }
        assert!(matches!(refused("10.0.0.1-fd00::1"), InvalidIpRange::Mixed(_)));
    }
}
