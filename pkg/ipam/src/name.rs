//! The name of a pool.

use std::{fmt, str::FromStr};

/// The name of a pool, with the rules of a Kubernetes object name (RFC 1123 subdomain): lower-case letters,
/// digits, `-` and `.`, a letter or digit at both ends, at most 253 bytes. It is safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolName(String);

/// A string is not a valid pool name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "pool name {0:?}: expected at most 253 lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
)]
pub struct InvalidPoolName(pub String);

impl PoolName {
    /// The maximum length in bytes.
    pub const MAX: usize = 253;

    /// Returns the name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PoolName {
    type Err = InvalidPoolName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let valid = text.len() <= Self::MAX
            && text.bytes().next().is_some_and(plain)
            && text.bytes().last().is_some_and(plain)
            && text.bytes().all(|b| plain(b) || matches!(b, b'-' | b'.'));
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidPoolName(text.to_owned())) }
    }
}

impl AsRef<str> for PoolName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_kubernetes_does() {
        for good in ["a", "rail0", "rail-0.v4", "0", &"x".repeat(253)] {
            assert_eq!(good.parse::<PoolName>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", ".a", "a.", "-a", "a-", "A", "a/b", "a b", "a\0", "ä", &"x".repeat(254)] {
            assert!(bad.parse::<PoolName>().is_err(), "{bad:?} must be refused");
        }
    }
}
