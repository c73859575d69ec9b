//! The owner of an address.

use std::{ffi::OsString, fmt};

use identifiers::Attachment;

/// The owner of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOwner {
    /// An attachment.
    Attachment(Attachment),
    /// A string that is not an attachment: the claim was not made by this program.
    Unknown(String),
}

impl fmt::Display for ClaimOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attachment(attachment) => attachment.fmt(f),
            Self::Unknown(text) => fmt::Debug::fmt(text, f),
        }
    }
}

impl ClaimOwner {
    /// Reads the target of a claim, which is a symbolic link.
    pub(super) fn read(text: OsString) -> Self {
        let text = text.to_string_lossy().into_owned();
        text.parse().map_or(Self::Unknown(text), Self::Attachment)
    }
}
