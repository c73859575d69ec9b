//! UIDs of pods.

use std::{fmt, str::FromStr};

/// The UID of a pod as the API server and the log directories write it: a lower-case UUID with dashes, or for a static pod
/// the hash of its manifest as 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodUid(String);

/// A text is not a valid pod UID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid pod UID: expected a UUID or 32 hexadecimal digits")]
pub struct InvalidPodUid;

/// The number of digits in each group of a UUID.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

impl PodUid {
    /// Returns the UID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PodUid {
    type Err = InvalidPodUid;

    /// Also accepts a UUID with `_` instead of `-`, as in slice names of systemd.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_uid = is_hex(text, 32) || is_uuid(text, '-') || is_uuid(text, '_');
        let canonical = || text.replace('_', "-").to_ascii_lowercase();
        is_uid.then(|| Self(canonical())).ok_or(InvalidPodUid)
    }
}

fn is_uuid(text: &str, separator: char) -> bool {
    let mut groups = text.split(separator);
    GROUPS.iter().all(|length| groups.next().is_some_and(|group| is_hex(group, *length)))
        && groups.next().is_none()
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_has_one_spelling() {
        let uid = "8a2f0c3e-1b4d-4e5f-9a6b-7c8d9e0f1a2b";
        for text in [uid.to_owned(), uid.replace('-', "_"), uid.to_uppercase()] {
            assert_eq!(text.parse::<PodUid>().unwrap().as_str(), uid, "{text}");
        }
        let hash = "0b1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f";
        assert_eq!(hash.parse::<PodUid>().unwrap().to_string(), hash, "a static pod's");
    }

    #[test]
    fn other_texts_are_rejected() {
        let bad = [
            "",
            "8a2f0c3e",
            "8a2f0c3e-1b4d-4e5f-9a6b-7c8d9e0f1a2",
            "8a2f0c3e-1b4d-4e5f-9a6b-7c8d9e0f1a2b0",
            "8a2f0c3e-1b4d-4e5f-9a6b-7c8d9e0f1a2b-",
            "8a2f0c3e_1b4d-4e5f-9a6b-7c8d9e0f1a2b",
            "8a2f0c3e1b4d-4e5f-9a6b-7c8d-9e0f1a2b",
            "8a2f0c3g-1b4d-4e5f-9a6b-7c8d9e0f1a2b",
            "0b1d2e3f4a5b6c7d8e9f0a1b2c3d4e5",
            "0b1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f0",
            "8a2f0c3e-1b4d-4e5f-9a6b-7c8d9e0f1aé",
        ];
        for text in bad {
            assert_eq!(text.parse::<PodUid>(), Err(InvalidPodUid), "{text:?}");
        }
    }
}
