//! What tells one namespace from another.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use serde::{Deserialize, Serialize};

/// What tells one namespace from another: device and inode of its file, and a number that is its own for ever.
///
/// The kernel uses an inode number again as soon as the namespace has died, so one that was noted may be another pod's.
/// Two are equal (`==`) if their numbers are, as those of living namespaces are never; whether they are the same, also
/// of one that was noted long ago, is what [`NetNsId::is`] says.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct NetNsId {
    /// Device of the nsfs.
    pub dev: u64,
    /// Inode, as in `net:[4026531840]`.
    pub ino: u64,
    /// A number that no other namespace has; absent if it was not looked for, or by an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<u64>,
}

impl NetNsId {
    /// The identity of a namespace that lives.
    pub const fn new(dev: u64, ino: u64) -> Self {
        Self { dev, ino, cookie: None }
    }

    /// Whether both are the same namespace, as far as both say: a cookie that one does not have cannot differ.
    pub fn is(self, other: Self) -> bool {
        let differ = self.cookie.zip(other.cookie).is_some_and(|(one, two)| one != two);
        self == other && !differ
    }
}

impl PartialEq for NetNsId {
    fn eq(&self, other: &Self) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }
}

impl Eq for NetNsId {}

impl Hash for NetNsId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.dev, self.ino).hash(state);
    }
}

impl fmt::Display for NetNsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net:[{}]", self.ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_noted_without_a_cookie_is_known_by_its_number() {
        let noted: NetNsId = serde_json::from_str(r#"{"dev":4,"ino":7}"#).unwrap();
        assert_eq!(serde_json::to_string(&noted).unwrap(), r#"{"dev":4,"ino":7}"#);
        let now = NetNsId { cookie: Some(3), ..noted };
        assert!(noted.is(now) && now.is(noted) && noted == now);
        assert_eq!(serde_json::to_string(&now).unwrap(), r#"{"dev":4,"ino":7,"cookie":3}"#);
        assert!(!now.is(NetNsId { cookie: Some(4), ..noted }));
        assert!(!now.is(NetNsId { ino: 8, ..now }));
    }
}
