//! Whose journal it is.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use identifiers::Attachment;
use netns::NetNsId;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The first line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalHeader {
    /// The version of the format.
    pub version: u32,
    /// The plugin that writes it.
    pub plugin: String,
    /// The attachment.
    pub attachment: Attachment,
    /// The network's name.
    pub network: String,
    /// `CNI_NETNS` of the ADD.
    pub netns_path: PathBuf,
    /// The namespace it named then; absent if the plugin had no use for it.
    pub netns: Option<NetNsId>,
    /// The boot of the kernel in which it was written.
    pub boot_id: String,
}

impl JournalHeader {
    /// The version this program writes, and the newest it reads.
    pub const VERSION: u32 = 1;

    /// The header of a journal; `None` if there is no journal, or none that can be understood. No lock is
    /// needed: it never changes.
    ///
    /// # Errors
    /// [`Error::File`] if it is there and cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        let bytes = match statefile::read(path) {
            Ok(Some(bytes)) => bytes,
            // Something else in its place is none either, and no reason not to look at the others.
            Ok(None) | Err(statefile::Error::Strange { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
        Ok(serde_json::from_slice(line).ok())
    }
}

/// The identity of this boot.
///
/// # Errors
/// [`Error::File`] if the kernel does not tell. To guess would be to take what is there for a former boot's.
pub fn boot_id() -> Result<&'static str, Error> {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    if let Some(id) = BOOT_ID.get() {
        return Ok(id);
    }
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let failed = |source| statefile::Error::Io { operation: "read", path: path.to_owned(), source };
    // The kernel hands it out whole, by one read.
    let mut text = [0; 64];
    let length = File::open(path).and_then(|mut file| file.read(&mut text)).map_err(failed)?;
    let id = String::from_utf8_lossy(&text[..length]);
    Ok(BOOT_ID.get_or_init(|| id.trim().to_owned()))
}
