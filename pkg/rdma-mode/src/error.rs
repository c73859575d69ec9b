//! Why the mode could not be read or set.

/// The mode could not be read or set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no RDMA.
    #[error(
        "RDMA not available: this kernel has no module ib_core ({0}); install the kernel's RDMA modules or the \
         vendor's driver (for Mellanox cards, then `modprobe mlx5_ib`)"
    )]
    NoModule(String),
    /// RDMA is not loaded, and nothing was to be kept for when it is.
    #[error(
        "RDMA not available: ib_core is not loaded; run `modprobe ib_core` (or the card's RDMA driver, like mlx5_ib)"
    )]
    NotLoaded,
    /// The kernel refused the mode.
    #[error(transparent)]
    Refused(#[from] rdma::ModeError),
    /// The kernel could not be asked.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// Nor could `/sys`.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// The configuration of modprobe.
    #[error(transparent)]
    Modprobe(#[from] modprobe::Error),
    /// What this process sees is not the node's.
    #[error(transparent)]
    NotTheNode(#[from] netns::NotOnNode),
}

impl Error {
    /// Whether the node has no RDMA, or a kernel that is too old to have modes.
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

    /// Whether other network namespaces are in the way.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Refused(rdma::ModeError::Busy { .. }))
    }
}
