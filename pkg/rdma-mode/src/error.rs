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

#[cfg(test)]
mod tests {
    use rdma::{Error::*, ModeError, NetnsMode::Exclusive};

    use super::*;

    #[test]
    fn a_node_without_rdma_differs_from_a_refusal() {
        let too_old = || TooOld { what: "set the RDMA mode" };
        for error in [
            Error::NoModule(String::new()),
            Error::NotLoaded,
            NoRdma.into(),
            too_old().into(),
            ModeError::Other(NoRdma).into(),
            ModeError::Other(too_old()).into(),
        ] {
            assert!(error.is_unsupported() && !error.is_busy(), "{error}");
        }
        let busy = Error::from(ModeError::Busy { mode: Exclusive });
        let refused = Error::from(ModeError::NotPermitted { mode: Exclusive });
        assert_eq!([busy.is_busy(), refused.is_busy()], [true, false]);
        assert!(!busy.is_unsupported() && !refused.is_unsupported());
    }
}
