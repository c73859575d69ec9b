//! The marker file of a configured node. Programs that need the configuration wait for it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The content of the marker, `ready.json`. A marker of another boot or of another node file is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadyMarker {
    /// The boot in which it was written.
    pub boot_id: String,
    /// The hash of the node file: `sha256:` and 64 hexadecimal digits.
    pub config_hash: String,
    /// The RDMA mode of the node; `None` without RDMA.
    pub rdma_mode: Option<rdma::NetnsMode>,
    /// The number of PFs that the node file matches.
    pub pfs: usize,
    /// The total number of their VFs.
    pub vfs: u32,
}

impl ReadyMarker {
    /// Returns the path of the marker in a state directory.
    pub fn path(state: &Path) -> PathBuf {
        state.join("ready.json")
    }

    /// Returns the hash of a node file, for [`ReadyMarker::config_hash`].
    pub fn hash(file: &[u8]) -> String {
        Sha256::digest(file).iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// Removes the marker, before the node is changed.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(state: &Path) -> Result<(), statefile::Error> {
        statefile::remove(&Self::path(state))
    }

    /// Writes the marker, unless it is up to date.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn announce(&self, state: &Path) -> Result<(), statefile::Error> {
        let path = Self::path(state);
        // Strings and numbers can always be serialized.
        let content = serde_json::to_vec_pretty(self).unwrap_or_default();
        if statefile::read(&path)?.is_some_and(|present| present == content) {
            return Ok(());
        }
        statefile::make_dir(state, 0o755)?;
        statefile::replace(&path, 0o644, &content)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt};

    use super::*;

    /// study case V29.
    #[test]
    fn a_marker_that_is_up_to_date_is_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let ready = ReadyMarker {
            boot_id: "b".into(),
            config_hash: ReadyMarker::hash(b"pfs: []\n"),
            rdma_mode: None,
            pfs: 1,
            vfs: 7,
        };
        let inode = || fs::metadata(ReadyMarker::path(dir.path())).unwrap().ino();
        ready.announce(dir.path()).unwrap();
        let first = inode();
        ready.announce(dir.path()).unwrap();
        assert_eq!(inode(), first);
        ReadyMarker { vfs: 8, ..ready }.announce(dir.path()).unwrap();
        let text = fs::read_to_string(ReadyMarker::path(dir.path())).unwrap();
        assert!(text.contains("\"vfs\": 8") && text.contains("sha256:"), "{text}");
        ReadyMarker::remove(dir.path()).unwrap();
        ReadyMarker::remove(dir.path()).unwrap();
        assert!(!ReadyMarker::path(dir.path()).exists());
    }
}
