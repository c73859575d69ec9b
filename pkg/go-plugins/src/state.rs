//! The state directory of the Go plugins.

use std::{
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

use identifiers::PciAddress;
use tracing::{info, warn};

use super::{
    GoStateFile, GoVfAllocation,
    boot::BootClock,
    file::{files, names},
};

/// The Go plugins that move devices, each of which has a directory of state files.
const DEVICE_PLUGINS: [&str; 3] = ["sriov", "ib-sriov", "rdma"];

/// The state directory of the Go plugins, `/var/lib/cni`.
#[derive(Debug, Clone)]
pub struct GoStateDir {
    pub(super) root: PathBuf,
    pub(super) clock: BootClock,
}

impl GoStateDir {
    /// The directory of this node; the Go plugins cannot be configured to use another.
    pub fn system() -> Self {
        Self::below(Path::new("/"))
    }

    /// The directory of the node with this root directory.
    pub fn below(root: &Path) -> Self {
        Self { root: root.join("var/lib/cni"), clock: BootClock::below(root) }
    }

    /// Opens and locks the file `name` of a plugin. A file from before the last boot is removed, since it describes objects
    /// that no longer exist.
    ///
    /// # Errors
    /// If another operation holds the lock until `deadline`, or an old file cannot be removed.
    pub fn find(
        &self,
        plugin: &str,
        name: &str,
        deadline: Instant,
    ) -> Result<Option<GoStateFile>, statefile::Error> {
        let path = self.root.join(plugin).join(name);
        let file = match statefile::open(&path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            Err(error) => {
                warn!(%error, "a Go plugin's file cannot be used and is kept");
                return Ok(None);
            }
        };
        statefile::lock(&file, &path, deadline)?;
        match GoStateFile::read(path.clone(), file) {
            Ok(Some(found)) if self.clock.is_from_earlier_boot(found.modified) => {
                info!(file = %path.display(), "removing a Go plugin's file from before the last boot");
                found.remove()?;
                Ok(None)
            }
            Ok(found) => Ok(found),
            Err(error) => {
                warn!(file = %path.display(), %error, "a Go plugin's file cannot be used and is kept");
                Ok(None)
            }
        }
    }

    /// Opens the newest file of a plugin for a device, if it is from this boot.
    ///
    /// # Errors
    /// As [`GoStateDir::find`].
    pub fn newest_about(
        &self,
        plugin: &str,
        device: &str,
        deadline: Instant,
    ) -> Result<Option<GoStateFile>, statefile::Error> {
        let mut files = files(&self.root.join(plugin));
        files.retain(|(path, modified)| !self.clock.is_from_earlier_boot(*modified) && names(path, device));
        let newest = files.into_iter().max_by_key(|(_, modified)| *modified);
        match newest.as_ref().and_then(|(path, _)| path.file_name()?.to_str()) {
            Some(name) => self.find(plugin, name, deadline),
            None => Ok(None),
        }
    }

    /// Whether a Go plugin has saved the state of an attachment of this device later than `since`.
    pub fn is_attached_since(&self, device: &str, since: SystemTime) -> bool {
        let of = |plugin| files(&self.root.join(plugin)).into_iter();
        let mut files = DEVICE_PLUGINS.into_iter().flat_map(of);
        files.any(|(path, modified)| modified > since && names(&path, device))
    }

    /// Returns the Go sriov plugin's allocation of a VF; `None` if there is none, or if it cannot be read.
    pub fn allocation(&self, vf: PciAddress) -> Option<GoVfAllocation> {
        let path = self.root.join("sriov/pci").join(vf.to_string());
        let modified = path.symlink_metadata().and_then(|meta| meta.modified()).ok()?;
        let bytes = statefile::read(&path)
            .inspect_err(|error| warn!(%error, "the Go plugin's allocation cannot be used and is kept"))
            .ok()??;
        let netns = PathBuf::from(String::from_utf8_lossy(&bytes).trim());
        let is_old = self.clock.is_from_earlier_boot(modified);
        Some(GoVfAllocation { path, netns, is_old })
    }
}
