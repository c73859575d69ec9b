//! An attachment: one interface of one container. It is the key of all state.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::LinkName;

/// A container ID as CNI allows it: a letter or digit, then letters, digits, `_`, `.` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContainerId(String);

/// The text is not a valid container ID.
#[derive(Debug, thiserror::Error)]
#[error(
    "container ID {0:?} is not valid: expected a letter or digit, then letters, digits, '_', '.' or '-', at most {max} bytes",
    max = ContainerId::MAX
)]
pub struct InvalidContainerId(pub String);

impl ContainerId {
    /// The maximum length in bytes: a file name also contains an interface name and a suffix.
    pub const MAX: usize = 200;

    /// The ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ContainerId {
    type Err = InvalidContainerId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        let valid = text.len() <= Self::MAX
            && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
            && text.bytes().all(allowed);
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidContainerId(text.to_owned())) }
    }
}

impl TryFrom<String> for ContainerId {
    type Error = InvalidContainerId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ContainerId> for String {
    fn from(id: ContainerId) -> Self {
        id.0
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One interface of one container: CNI's key of an attachment.
///
/// Displayed as `container@ifname`. A container ID never contains `@`, so the text can be parsed and is unique;
/// `container-ifname`, which the Go plugins use, is ambiguous.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The container ID; for Kubernetes, the ID of the pod's sandbox.
    pub container_id: ContainerId,
    /// The name of the interface in the container, such as `net1`.
    pub ifname: LinkName,
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.container_id, self.ifname)
    }
}

impl FromStr for Attachment {
    type Err = InvalidContainerId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidContainerId(text.to_owned());
        let (container, ifname) = text.split_once('@').ok_or_else(invalid)?;
        Ok(Self { container_id: container.parse()?, ifname: ifname.parse().map_err(|_| invalid())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_ids_are_checked() {
        for good in ["a", "0", "f00d", "cnitool-77383ca0a0715733ca6f", "a_b.c-d"] {
            assert_eq!(good.parse::<ContainerId>().unwrap().as_str(), good);
        }
        assert!("x".repeat(ContainerId::MAX).parse::<ContainerId>().is_ok());
        for bad in ["", "-a", "_a", ".a", "..", "a/b", "a@b", "a b", "some-%%container-id", &"x".repeat(201)]
        {
            assert!(bad.parse::<ContainerId>().is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn an_attachment_reads_back_what_it_prints() {
        let attachment: Attachment = "a-b@net1@x".parse().unwrap();
        assert_eq!(attachment.container_id.as_str(), "a-b");
        assert_eq!(attachment.ifname.as_str(), "net1@x");
        assert_eq!(attachment.to_string(), "a-b@net1@x");
        assert!("no-separator".parse::<Attachment>().is_err());
        assert!("a@".parse::<Attachment>().is_err());
    }
}
