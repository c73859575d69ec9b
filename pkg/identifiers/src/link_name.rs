//! Names of links, as the kernel accepts them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::is_unprintable;

/// A link's name: 1 to 15 bytes, no `/`, `:`, white space or control characters, not `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[doc(alias = "IFNAMSIZ")]
pub struct LinkName(String);

/// Why a text is not a valid link name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLinkName {
    /// The text is empty.
    #[error("link name is empty")]
    Empty,
    /// It has 16 bytes or more.
    #[error("link name is longer than 15 bytes")]
    TooLong,
    /// It has 128 bytes or more, where an altname is accepted.
    #[error("link name is longer than 127 bytes")]
    TooLongForAltname,
    /// It is `.` or `..`.
    #[error("link name is . or ..")]
    Dots,
    /// It contains a character that the kernel refuses.
    #[error("link name contains / or : or whitespace characters")]
    Character,
    /// It contains a character that the kernel accepts, but that controls a terminal or the direction of text.
    #[error("link name contains control characters")]
    Unprintable,
}

impl LinkName {
    /// The maximum length in bytes, `IFNAMSIZ` minus 1.
    pub const MAX: usize = 15;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LinkName {
    type Err = InvalidLinkName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            _ if text.len() > Self::MAX => Err(InvalidLinkName::TooLong),
            _ => validate(text).map(|()| Self(text.to_owned())),
        }
    }
}

fn validate(text: &str) -> Result<(), InvalidLinkName> {
    match text {
        "" => Err(InvalidLinkName::Empty),
        "." | ".." => Err(InvalidLinkName::Dots),
        _ if text.chars().any(|c| matches!(c, '/' | ':' | '\0') || c.is_whitespace()) => {
            Err(InvalidLinkName::Character)
        }
        _ if text.chars().any(is_unprintable) => Err(InvalidLinkName::Unprintable),
        _ => Ok(()),
    }
}

impl TryFrom<String> for LinkName {
    type Error = InvalidLinkName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<LinkName> for String {
    fn from(name: LinkName) -> Self {
        name.0
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name or an altname by which a link that exists is looked up: 1 to 127 bytes, the other rules are those of [`LinkName`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(alias = "ALTIFNAMSIZ")]
pub struct AnyLinkName(String);

impl AnyLinkName {
    /// The maximum length in bytes, `ALTIFNAMSIZ` minus 1.
    pub const MAX: usize = 127;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AnyLinkName {
    type Err = InvalidLinkName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            _ if text.len() > Self::MAX => Err(InvalidLinkName::TooLongForAltname),
            _ => validate(text).map(|()| Self(text.to_owned())),
        }
    }
}

impl From<LinkName> for AnyLinkName {
    fn from(name: LinkName) -> Self {
        Self(name.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_the_kernel_does() {
        assert_eq!("net1".parse::<LinkName>().unwrap().as_str(), "net1");
        assert_eq!("a23456789012345".parse::<LinkName>().unwrap().as_str().len(), 15);
        assert_eq!("a234567890123456".parse::<LinkName>(), Err(InvalidLinkName::TooLong));
        assert_eq!("".parse::<LinkName>(), Err(InvalidLinkName::Empty));
        assert_eq!([".", ".."].map(str::parse::<LinkName>), [const { Err(InvalidLinkName::Dots) }; 2]);
        assert_eq!("eth0.100".parse::<LinkName>().unwrap().as_str(), "eth0.100");
        for bad in ["a/b", "a:b", "a b", "a\u{2003}b", "a\tb", "a\0b"] {
            assert_eq!(bad.parse::<LinkName>(), Err(InvalidLinkName::Character), "{bad:?}");
        }
        let (altname, long) = ("a".repeat(127), "a".repeat(128));
        assert_eq!(altname.parse::<AnyLinkName>().unwrap().as_str(), altname);
        assert_eq!(long.parse::<AnyLinkName>(), Err(InvalidLinkName::TooLongForAltname));
        assert_eq!("a/b".parse::<AnyLinkName>(), Err(InvalidLinkName::Character));
        for bad in ["a\u{1b}[2J", "a\u{7f}", "a\u{202e}b"] {
            assert_eq!(bad.parse::<LinkName>(), Err(InvalidLinkName::Unprintable), "{bad:?}");
        }
    }
}
