//! The directory of device plugins.

use std::path::PathBuf;

/// The directory of device plugins, `/var/lib/kubelet/device-plugins`.
#[derive(Debug, Clone)]
pub struct KubeletDirectory(pub PathBuf);

impl KubeletDirectory {
    /// Whether a kubelet uses it, or has: it has another one if its root directory is not `/var/lib/kubelet`.
    pub fn is_used(&self) -> bool {
        self.socket().exists() || self.checkpoint().exists()
    }

    /// Returns the path of the file with the allocations of all device plugins.
    pub fn checkpoint(&self) -> PathBuf {
        self.0.join("kubelet_internal_checkpoint")
    }

    /// Returns the path of the kubelet's socket, at which device plugins register.
    pub fn socket(&self) -> PathBuf {
        self.0.join("kubelet.sock")
    }
}
