//! Errors of reading and setting the mode.

/// The mode could not be read or set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no module `ib_core`.
    #[error(
        "RDMA not available: this kernel has no module ib_core ({0}); install the kernel's RDMA modules or the \
         vendor's driver (for Mellanox cards, then `modprobe mlx5_ib`)"
    )]
    NoModule(String),
    /// `ib_core` is not loaded, and the mode was not to be persisted.
    #[error(
        "RDMA not available: ib_core is not loaded; run `modprobe ib_core` (or the card's RDMA driver, like mlx5_ib)"
    )]
    NotLoaded,
    /// The kernel refused the mode.
    #[error(transparent)]
    Refused(#[from] rdma::ModeError),
    /// A netlink request failed.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// The parameter in `/sys` could not be read.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// The configuration of modprobe could not be read or written.
    #[error(transparent)]
    Modprobe(#[from] modprobe::Error),
    /// This process is not in the node's namespaces.
    #[error(transparent)]
    NotTheNode(#[from] netns::NotOnNode),
}

impl Error {
    /// Whether the node has no RDMA, or its kernel is too old to have modes.
    pub fn is_unsupported(&self) -> bool {
        use rdma::{Error::NoRdma, Error::TooOld, ModeError::Other};
        matches!(
            self,
            Self::NoModule(_)
                | Self::NotLoaded
                | Self::Rdma(NoRdma | TooOld { .. })
                | Self::Refused(Other(NoRdma | TooOld { .. }))
        )
    }

    /// Whether the kernel refused because other network namespaces exist (`EBUSY`).
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Refused(rdma::ModeError::Busy { .. }))
    }
}
