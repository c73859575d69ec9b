//! A partition key of InfiniBand.

use std::{fmt, str::FromStr};

/// A partition key. That of a full member is not that of a limited one, as in sriov-network-device-plugin (`pKeySelector.Filter` in
/// pkg/resources/pKeySelector.go).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pkey(u16);

/// The text is no partition key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a partition key: expected \"0x0001\" to \"0xffff\"")]
pub struct InvalidPkey(pub String);

/// The bit of full membership.
const FULL_MEMBER: u16 = 0x8000;

impl FromStr for Pkey {
    type Err = InvalidPkey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
        let number = u16::from_str_radix(digits, 16).ok();
        number
            .filter(|number| number & !FULL_MEMBER != 0)
            .map(Self)
            .ok_or_else(|| InvalidPkey(text.to_owned()))
    }
}

impl fmt::Display for Pkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_full_and_limited_members_differ() {
        let key: Pkey = "0xFFFF".parse().unwrap();
        assert_eq!(key.to_string(), "0xffff");
        assert_ne!(key, "0x7fff".parse().unwrap());
        assert_eq!("0x1".parse::<Pkey>(), "0x0001".parse());
        for text in ["", "0x0", "0x8000", "10000", "x"] {
            assert_eq!(text.parse::<Pkey>(), Err(InvalidPkey(text.to_owned())));
        }
    }
}
