//! Why a node's functions could not be listed.

use std::{io, path::PathBuf};

/// Why a node's functions could not be listed. Who may change them must see everything, so nothing is guessed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// sysfs.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// Links, by netlink.
    #[error(transparent)]
    Links(#[from] rtnl::Error),
    /// RDMA devices, by netlink.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// The claims of pods.
    #[error(transparent)]
    Claims(#[from] state::Error),
    /// Which pods live.
    #[error(transparent)]
    CannotJudge(#[from] netns::NotOnNode),
    /// Another file.
    #[error("read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}
