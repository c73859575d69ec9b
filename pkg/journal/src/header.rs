//! The header of a journal, and the boot ID.

use std::path::{Path, PathBuf};

use identifiers::Attachment;
use netns::NetNsId;
use serde::{Deserialize, Serialize};

/// The first line of a journal. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalHeader {
    /// The version of the journal's format.
    pub version: u32,
    /// The plugin that writes the journal, for example `macvlan`.
    pub plugin: String,
    /// The attachment that the journal belongs to.
    pub attachment: Attachment,
    /// The name of the network, from the configuration.
    pub network: String,
    /// `CNI_NETNS` of the ADD.
    pub netns_path: PathBuf,
    /// The namespace at that path during the ADD; absent if the plugin did not need it.
    pub netns: Option<NetNsId>,
    /// The boot ID of the kernel at the ADD, see [`boot_id`].
    pub boot_id: String,
}

impl JournalHeader {
    /// The format version that this program writes, and the newest that it reads.
    pub const VERSION: u32 = 1;

    /// Reads the header of a journal without locking it. Returns `None` if the file does not exist or cannot be
    /// parsed.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>, statefile::Error> {
        let bytes = match statefile::read(path) {
            Ok(Some(bytes)) => bytes,
            // A directory or a link in its place is not a journal; the caller continues with the others.
            Ok(None) | Err(statefile::Error::NotRegular { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
        Ok(serde_json::from_slice(line).ok())
    }
}

/// Returns the ID of the current boot, from `/proc/sys/kernel/random/boot_id`.
///
/// # Errors
/// If it cannot be read. A wrong ID would make existing state look like that of a former boot.
pub fn boot_id() -> Result<&'static str, statefile::Error> {
    let failed = |source| statefile::Error::Io {
        operation: "read",
        path: "/proc/sys/kernel/random/boot_id".into(),
        source,
    };
    bootid::current().map_err(failed)
}
