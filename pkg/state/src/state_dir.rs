//! The paths of the state directory.

use std::path::{Path, PathBuf};

use identifiers::Attachment;
use podmap::PodMap;

/// The state directory: `/run/silkrail`, or `stateDir` of the configuration.
#[derive(Debug, Clone)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// The default: on a tmpfs, so that state is lost at a reboot together with the namespaces and links that
    /// it describes.
    pub const DEFAULT: &'static str = "/run/silkrail";

    /// Returns the state directory with that path. The directory need not exist.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Creates a directory below the state directory with mode 0700 and returns its path.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf, statefile::Error> {
        let path = self.root.join(name);
        if !path.is_dir() {
            // Mode 0755, because the pod map below it is readable by all users.
            statefile::make_dir(&self.root, 0o755)?;
            statefile::make_dir(&path, 0o700)?;
        }
        Ok(path)
    }

    /// Returns the directory of the journals.
    pub(crate) fn attachments(&self) -> PathBuf {
        self.root.join("attachments")
    }

    /// Returns the path of the journal of an attachment and a plugin.
    pub fn journal(&self, attachment: &Attachment, plugin: &str) -> PathBuf {
        self.attachments().join(format!("{attachment}.{plugin}.journal"))
    }

    /// Returns the directory of the links from a pod's interface to its attachment. With them, a restarted sandbox keeps its
    /// addresses.
    pub fn notes(&self) -> PathBuf {
        self.root.join("ipam/pods")
    }

    /// Returns the directory of the records of masters, which ifacer writes.
    pub fn masters(&self) -> PathBuf {
        self.root.join("masters")
    }

    /// Returns the pod map.
    pub fn podmap(&self) -> PodMap {
        PodMap::below(&self.root)
    }
}
