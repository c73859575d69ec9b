//! The header of a journal, and the boot ID.

use std::path::{Path, PathBuf};

use identifiers::Attachment;
use netns::NetNsId;
use serde::{Deserialize, Serialize};

use crate::RecordedPod;

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
    /// The boot ID of the kernel at the ADD, see [`crate::boot_id`].
    pub boot_id: String,
}

impl JournalHeader {
    /// The format version that this program writes, and the newest that it reads.
    pub const VERSION: u32 = 1;

    /// Returns what is recorded of the pod.
    pub fn pod(&self) -> RecordedPod<'_> {
        RecordedPod { boot_id: &self.boot_id, netns_path: &self.netns_path, netns: self.netns }
    }

    /// Reads the header of a journal without locking it. Returns `None` if the file does not exist or cannot be
    /// parsed.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>, statefile::Error> {
        let bytes = match statefile::read(path) {
            Ok(Some(bytes)) => bytes,
            // A directory, a link or another user's file is not a journal; the caller continues with the others.
            Ok(None) => return Ok(None),
            Err(error) if error.is_foreign() => return Ok(None),
            Err(error) => return Err(error),
        };
        let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
        Ok(serde_json::from_slice(line).ok())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_header_is_read_whatever_follows_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        assert_eq!(JournalHeader::read(&path).unwrap(), None);
        let header = JournalHeader {
            version: JournalHeader::VERSION,
            plugin: "macvlan".into(),
            attachment: "a@net1".parse().unwrap(),
            network: "rail0".into(),
            netns_path: "/run/netns/pod".into(),
            netns: None,
            boot_id: "b".into(),
        };
        let line = serde_json::to_string(&header).unwrap();
        for rest in ["", "\n", "\n{\"change\":7}\n", "\ngarbage"] {
            fs::write(&path, format!("{line}{rest}")).unwrap();
            assert_eq!(JournalHeader::read(&path).unwrap().as_ref(), Some(&header), "{rest:?}");
        }
        for other in ["", "\n", "garbage\n", "{}\n"] {
            fs::write(&path, other).unwrap();
            assert_eq!(JournalHeader::read(&path).unwrap(), None, "{other:?}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(JournalHeader::read(&path).unwrap(), None, "a directory in its place");
    }
}
