//! The ID of a network namespace.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use serde::{Deserialize, Serialize};

/// The ID of a network namespace: device and inode of its file, and a cookie that is never reused.
///
/// The kernel reuses an inode number as soon as the namespace is gone, so a recorded number may belong to another pod.
/// Two IDs are equal (`==`) if device and inode are equal, which identifies a namespace among the existing ones.
/// [`NetNsId::is`] also compares the cookies; use it for an ID that was recorded earlier.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct NetNsId {
    /// The device number of nsfs.
    pub dev: u64,
    /// The inode number, as in `net:[4026531840]`.
    pub ino: u64,
    /// A number that no other namespace has had; absent if it was not read, or if an earlier version recorded the ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<u64>,
}

impl NetNsId {
    /// Creates the ID of an existing namespace, without a cookie.
    pub const fn new(dev: u64, ino: u64) -> Self {
        Self { dev, ino, cookie: None }
    }

    /// Returns whether both IDs refer to the same namespace. Cookies are only compared if both have one.
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
    fn an_id_without_a_cookie_is_compared_by_its_numbers() {
        let recorded: NetNsId = serde_json::from_str(r#"{"dev":4,"ino":7}"#).unwrap();
        assert_eq!(serde_json::to_string(&recorded).unwrap(), r#"{"dev":4,"ino":7}"#);
        let now = NetNsId { cookie: Some(3), ..recorded };
        assert!(recorded.is(now) && now.is(recorded) && recorded == now);
        assert_eq!(serde_json::to_string(&now).unwrap(), r#"{"dev":4,"ino":7,"cookie":3}"#);
        assert!(!now.is(NetNsId { cookie: Some(4), ..recorded }));
        assert!(!now.is(NetNsId { ino: 8, ..now }));
    }
}
