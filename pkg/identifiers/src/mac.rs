//! Ethernet MAC addresses.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

/// An Ethernet MAC address, displayed as `c2:11:22:33:44:55`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddr([u8; 6]);

/// The text is not a valid MAC address.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a MAC address: expected six bytes like c2:11:22:33:44:55")]
pub struct InvalidMac(pub String);

impl MacAddr {
    /// `00:00:00:00:00:00`. As the administrative MAC address of a VF, it means that the VF may choose one.
    pub const ZERO: Self = Self([0; 6]);

    /// Returns the address with these bytes; `None` if there are not six.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns a random address: unicast and locally administered.
    pub fn random() -> Self {
        // The standard library seeds its hasher with random numbers from the kernel.
        let random = RandomState::new().build_hasher().finish().to_ne_bytes();
        let [first, second, third, fourth, fifth, sixth, ..] = random;
        Self([first & !1 | 2, second, third, fourth, fifth, sixth])
    }

    /// Returns the six bytes in transmission order.
    pub fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// Whether the group bit is set. The kernel refuses such an address for a link (`EADDRNOTAVAIL`).
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Whether all six bytes are zero.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl FromStr for MacAddr {
    type Err = InvalidMac;

    /// Reads `c2:11:22:33:44:55`, `c2-11-22-33-44-55` and `c211.2233.4455`, in either letter case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidMac(text.to_owned());
        let separator = text.chars().find(|c| matches!(c, ':' | '-' | '.')).ok_or_else(invalid)?;
        let width = if separator == '.' { 4 } else { 2 };
        let mut bytes = Vec::with_capacity(6);
        for group in text.split(separator) {
            if group.len() != width || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(invalid());
            }
            for pair in group.as_bytes().chunks(2) {
                let pair = std::str::from_utf8(pair).map_err(|_| invalid())?;
                bytes.push(u8::from_str_radix(pair, 16).map_err(|_| invalid())?);
            }
        }
        Self::from_bytes(&bytes).ok_or_else(invalid)
    }
}

impl TryFrom<String> for MacAddr {
    type Error = InvalidMac;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<MacAddr> for String {
    fn from(mac: MacAddr) -> Self {
        mac.to_string()
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_address_is_unicast_and_locally_administered() {
        for _ in 0..100 {
            assert_eq!(MacAddr::random().bytes()[0] & 3, 2);
        }
        assert_ne!(MacAddr::random(), MacAddr::random());
    }

    #[test]
    fn the_three_spellings_are_read_and_one_is_written() {
        for text in ["C2:11:22:33:44:55", "c2-11-22-33-44-55", "c211.2233.4455"] {
            assert_eq!(text.parse::<MacAddr>().unwrap().to_string(), "c2:11:22:33:44:55");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in
            ["", "zz", "c2:11:22:33:44", "c2:11:22:33:44:55:66", "c2:11-22:33:44:55", "+2:11:22:33:44:55"]
        {
            assert!(bad.parse::<MacAddr>().is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn multicast_addresses_and_the_address_of_a_vf_without_one_are_recognized() {
        assert!("00:00:00:00:00:00".parse::<MacAddr>().unwrap().is_zero());
        assert!(!"00:00:00:00:00:01".parse::<MacAddr>().unwrap().is_zero());
        assert_eq!([&[2; 5][..], &[2; 7]].map(MacAddr::from_bytes), [None; 2]);
        assert!("01:00:5e:00:00:01".parse::<MacAddr>().unwrap().is_multicast());
        assert!(!"02:00:5e:00:00:01".parse::<MacAddr>().unwrap().is_multicast());
    }
}
