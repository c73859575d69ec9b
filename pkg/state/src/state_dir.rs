//! The state directory.

use std::path::{Path, PathBuf};

use identifiers::Attachment;
use podmap::PodMap;

/// The state directory: `/run/silkrail`, or what a configuration says.
#[derive(Debug, Clone)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// Where state is kept unless a configuration says otherwise: on a file system that dies with the boot,
    /// as namespaces and links do.
    pub const DEFAULT: &'static str = "/run/silkrail";

    /// The state directory of that path.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a directory below the state directory. Only root may look into it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf, statefile::Error> {
        let path = self.root.join(name);
        if !path.is_dir() {
            // The pod map is for everybody, so the way to it is open.
            statefile::make_dir(&self.root, 0o755)?;
            statefile::make_dir(&path, 0o700)?;
        }
        Ok(path)
    }

    /// The directory of the journals.
    pub(crate) fn attachments(&self) -> PathBuf {
        self.root.join("attachments")
    }

    /// The journal of an attachment and a plugin.
    pub fn journal(&self, attachment: &Attachment, plugin: &str) -> PathBuf {
        self.attachments().join(format!("{attachment}.{plugin}.journal"))
    }

    /// The notes which attachment a pod's interface is, by which a restarted sandbox keeps its addresses.
    pub fn notes(&self) -> PathBuf {
        self.root.join("ipam/pods")
    }

    /// The pod map.
    pub fn podmap(&self) -> PodMap {
        PodMap::below(&self.root)
    }
}
