//! Hardware addresses of any link.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The hardware address of a link, as `ip link` displays it: 6 bytes on Ethernet, 20 on IP over InfiniBand, or none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HardwareAddr(Vec<u8>);

/// The text is not a hardware address.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a hardware address: expected bytes like 80:00:00:12:fe:80")]
pub struct InvalidHardwareAddr(pub String);

impl HardwareAddr {
    /// Returns the address with these bytes, in transmission order.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// Returns the bytes in transmission order.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the link has no address.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for HardwareAddr {
    type Err = InvalidHardwareAddr;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let byte = |pair: &str| {
            let is_byte = pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
            is_byte.then(|| u8::from_str_radix(pair, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        bytes.map(Self).ok_or_else(|| InvalidHardwareAddr(text.to_owned()))
    }
}

impl TryFrom<String> for HardwareAddr {
    type Error = InvalidHardwareAddr;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<HardwareAddr> for String {
    fn from(address: HardwareAddr) -> Self {
        address.to_string()
    }
}

impl fmt::Display for HardwareAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.0.iter();
        if let Some(first) = bytes.next() {
            write!(f, "{first:02x}")?;
        }
        bytes.try_for_each(|byte| write!(f, ":{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_any_length_are_read_and_displayed() {
        for text in ["", "c2:11:22:33:44:55", "80:00:00:12:fe:80:00:00:00:00:00:00:b8:59:9f:03:00:02:00:00"] {
            let address: HardwareAddr = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.is_empty(), text.is_empty());
        }
        for text in [":", "1", "1:2", "zz", "c2:11:22:33:44:5", "c2-11", "+1:02", "c2:11:"] {
            text.parse::<HardwareAddr>().unwrap_err();
        }
    }
}
