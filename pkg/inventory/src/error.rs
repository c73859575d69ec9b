//! Errors of reading the inventory.

use std::{io, path::PathBuf};

/// The inventory could not be read. There are no partial results, since changes of VFs depend on complete evidence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An attribute of sysfs could not be read.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// A netlink request for links failed.
    #[error(transparent)]
    Links(#[from] rtnl::Error),
    /// A netlink request for RDMA devices failed.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// The claims or the pod map could not be read.
    #[error(transparent)]
    Claims(#[from] state::Error),
    /// The running pods cannot be determined from this process.
    #[error(transparent)]
    CannotJudge(#[from] netns::NotOnNode),
    /// Another file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
}
