//! What can go wrong with RDMA devices, in words an operator can act on.

use std::{io, path::PathBuf, time::Duration};

use sysfs::Function;

/// An RDMA device could not be found or asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's RDMA core is not there. Plugins that can do without RDMA go on.
    #[error(
        "this node has no RDMA: the kernel's RDMA core (ib_core) is not loaded; load the card's RDMA driver, \
         for Mellanox cards `modprobe mlx5_ib`"
    )]
    NoRdma,
    /// The kernel's RDMA core is there and too old for this.
    #[error(
        "{what}: this kernel cannot do that; Linux 5.3 or newer, or a vendor's RDMA stack of that age, is needed"
    )]
    TooOld {
        /// What was asked for.
        what: &'static str,
    },
    /// No RDMA device of that name or number is visible in the namespace.
    #[error("RDMA device {device}: not found in this network namespace")]
    NoSuchDevice {
        /// Its name, or its number.
        device: String,
    },
    /// The function has no RDMA device at all.
    #[error(
        "{function} has no RDMA device: its driver is {}; is the driver's RDMA part loaded (for mlx5: mlx5_ib)?",
        driver.as_deref().unwrap_or("none")
    )]
    NoDeviceOf {
        /// The PCI function or auxiliary device.
        function: Function,
        /// The driver it is bound to.
        driver: Option<String>,
    },
    /// The function's RDMA device is in another namespace: a pod has it.
    #[error("{function}: its RDMA device ({uverbs}) is in another network namespace: a pod has it")]
    Elsewhere {
        /// The PCI function or auxiliary device.
        function: Function,
        /// The character device that is left of it here.
        uverbs: String,
    },
    /// The function has more than one RDMA device, and one is expected.
    #[error("{function} has {} RDMA devices ({}): expected one", devices.len(), devices.join(", "))]
    SeveralDevices {
        /// The PCI function or auxiliary device.
        function: Function,
        /// Their names.
        devices: Vec<String>,
    },
    /// The device did not come home in time.
    #[error("{function}: its RDMA device did not come back to this network namespace within {:.1} s", within.as_secs_f64())]
    NotReturned {
        /// The PCI function or auxiliary device.
        function: Function,
        /// How long was waited.
        within: Duration,
    },
    /// Another process has moved RDMA devices all the time, or has not let go of the lock.
    #[error(
        "RDMA devices move one at a time: {} has held the lock on {} for {:.1} s",
        holder.as_deref().unwrap_or("another process"), path.display(), waited.as_secs_f64()
    )]
    MovesHeld {
        /// What is locked.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
        /// Who has it, if that can be seen from here.
        holder: Option<String>,
    },
    /// The lock could not be asked for.
    #[error("lock {}: {source}", path.display())]
    Lock {
        /// What is locked.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused a request.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    /// Sysfs gave no answer.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// A namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] netns::Error),
}

impl Error {
    /// Whether the name to be given is taken.
    pub fn is_exists(&self) -> bool {
        matches!(self, Self::Netlink(netlink::Error::Exists { .. }))
    }

    /// Whether the device is simply not there, here or at all. A clean-up treats this as done.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::NoRdma | Self::NoSuchDevice { .. } | Self::NoDeviceOf { .. } | Self::Elsewhere { .. } => {
                true
            }
            Self::Netlink(e) => e.is_not_found(),
            Self::Sysfs(e) => e.is_not_found(),
            Self::TooOld { .. }
            | Self::SeveralDevices { .. }
            | Self::NotReturned { .. }
            | Self::MovesHeld { .. }
            | Self::Lock { .. }
            | Self::NetNs(_) => false,
        }
    }
}
