//! A Go plugin's state file of one attachment.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use cni::ConfObject;
use serde_json::{Map, Value};
use tracing::warn;

/// Upper limit of the bytes read. Files of the Go plugins are shorter.
const MAX_GO_FILE_BYTES: u64 = 1 << 20;

/// A Go plugin's state file of one attachment. It is locked against other Silkrail operations while this value exists.
#[derive(Debug)]
pub struct GoStateFile {
    pub(super) path: PathBuf,
    pub(super) modified: SystemTime,
    object: Map<String, Value>,
    _locked: File,
}

impl GoStateFile {
    /// Reads a file; `None` if it was removed during the wait for its lock.
    pub(super) fn read(path: PathBuf, mut file: File) -> io::Result<Option<Self>> {
        let meta = file.metadata()?;
        if meta.nlink() == 0 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        Read::take(&mut file, MAX_GO_FILE_BYTES).read_to_end(&mut bytes)?;
        let object = serde_json::from_slice(&bytes)?;
        Ok(Some(Self { path, modified: meta.modified()?, object, _locked: file }))
    }

    /// Returns its fields. Go writes a field without a JSON tag under its name in the source.
    pub fn fields(&self) -> ConfObject<'_> {
        ConfObject::new(&self.object, "")
    }

    /// Whether a newer file of the plugin assigns the same device to another pod.
    pub fn is_outdated(&self) -> bool {
        let Ok(Some(device)) = self.fields().text("deviceID") else { return false };
        let others = files(self.path.parent().unwrap_or(Path::new("/")));
        others
            .iter()
            .any(|(path, modified)| *path != self.path && *modified >= self.modified && names(path, device))
    }

    /// Logs that the file cannot be parsed and is kept.
    pub fn warn_and_keep(&self, why: &cni::Error) {
        warn!(file = %self.path.display(), %why, "a Go plugin's file cannot be used and is kept");
    }

    /// Removes the file, after everything that it records was reverted.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove(self) -> Result<(), statefile::Error> {
        statefile::remove(&self.path)
    }
}

/// Returns the regular files of a directory, with their modification times.
pub(super) fn files(dir: &Path) -> Vec<(PathBuf, SystemTime)> {
    let Ok(list) = fs::read_dir(dir) else { return Vec::new() };
    list.filter_map(|item| {
        let item = item.ok()?;
        let meta = item.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((item.path(), meta.modified().ok()?))
    })
    .collect()
}

/// Whether a file names this device as its `deviceID`.
pub(super) fn names(path: &Path, device: &str) -> bool {
    let Ok(Some(bytes)) = statefile::read(path) else { return false };
    let Ok(object) = serde_json::from_slice::<Map<String, Value>>(&bytes) else { return false };
    let named = |fields: ConfObject<'_>| fields.text("deviceID").ok().flatten().map(str::to_ascii_lowercase);
    named(ConfObject::new(&object, "")) == Some(device.to_ascii_lowercase())
}
