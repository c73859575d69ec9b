//! A GUID, the 64-bit identifier of an InfiniBand device or port.

use std::{fmt, str::FromStr};

/// A GUID. Its text is that of sysfs and `rdma`: `5054:00ff:fe00:0101`. Configurations and `ip link` write it in bytes:
/// [`Guid::in_bytes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

/// The text is not a GUID in bytes.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a GUID: expected eight bytes like 02:00:00:00:00:00:00:01, not all zero")]
pub struct InvalidGuid(pub String);

impl Guid {
    /// All bits set, by which ib-kubernetes and the Go plugin express that a VF has no GUID.
    pub const UNASSIGNED: Self = Self(u64::MAX);

    /// Whether all bits are zero: then the VF was bound to its driver before it had a MAC address or a GUID, and
    /// RDMA-CM does not work with it.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether a port can use it: it is neither zero nor [`Guid::UNASSIGNED`].
    pub fn is_assigned(self) -> bool {
        !self.is_zero() && self != Self::UNASSIGNED
    }

    /// Returns the text in bytes: `50:54:00:ff:fe:00:01:01`.
    pub fn in_bytes(self) -> String {
        self.0.to_be_bytes().map(|byte| format!("{byte:02x}")).join(":")
    }
}

impl FromStr for Guid {
    type Err = InvalidGuid;

    /// Reads a text in bytes, in either letter case. Zero is no GUID.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let byte = |pair: &str| {
            let is_byte = pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
            is_byte.then(|| u8::from_str_radix(pair, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let guid = bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        guid.filter(|guid| *guid != 0).map(Self).ok_or_else(|| InvalidGuid(text.to_owned()))
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = [self.0 >> 48, self.0 >> 32, self.0 >> 16, self.0].map(|part| part & 0xffff);
        write!(f, "{a:04x}:{b:04x}:{c:04x}:{d:04x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_prints_in_four_groups_or_in_bytes() {
        assert_eq!(Guid(0x5054_00ff_fe00_0101).to_string(), "5054:00ff:fe00:0101");
        assert_eq!(Guid(0).to_string(), "0000:0000:0000:0000");
        assert_eq!(Guid(0x5054_00ff_fe00_0101).in_bytes(), "50:54:00:ff:fe:00:01:01");
    }

    #[test]
    fn bytes_are_read_in_either_case() {
        assert_eq!("02:00:00:00:00:00:AB:cd".parse::<Guid>().unwrap(), Guid(0x0200_0000_0000_abcd));
        let (seven, nine) = ("02:00:00:00:00:00:01", "02:00:00:00:00:00:00:00:01");
        let (zero, mixed, bare) = ("00:00:00:00:00:00:00:00", "02:00:00-00:00:00:00:01", "0200000000000001");
        for text in
            ["", "invalid GUID", seven, nine, zero, mixed, bare, "2:0:0:0:0:0:0:1", "+2:00:00:00:00:00:00:01"]
        {
            text.parse::<Guid>().unwrap_err();
        }
        assert!(Guid(1).is_assigned() && !Guid(0).is_assigned() && !Guid::UNASSIGNED.is_assigned());
    }
}
