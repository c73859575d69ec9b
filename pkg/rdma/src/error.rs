//! The errors of operations on RDMA devices.

use std::{io, path::PathBuf, time::Duration};

use sysfs::Function;

/// The error of an operation on RDMA devices.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's RDMA core is not loaded. Plugins that do not require RDMA continue.
    #[error(
        "this node has no RDMA: the kernel's RDMA core (ib_core) is not loaded; load the card's RDMA driver, \
         for Mellanox cards `modprobe mlx5_ib`"
    )]
    NoRdma,
    /// The kernel's RDMA core is loaded, but does not support a request.
    #[error(
        "{what}: not supported by this kernel; Linux 5.3 or newer, or a vendor's RDMA stack of that age, is needed"
    )]
    TooOld {
        /// The operation, such as `set the RDMA mode`.
        what: &'static str,
    },
    /// No RDMA device of that name or index is visible in the namespace.
    #[error("RDMA device {device}: not found in this network namespace")]
    NoSuchDevice {
        /// The device's name or index.
        device: String,
    },
    /// The function does not have an RDMA device in any namespace.
    #[error(
        "{function} has no RDMA device: its driver is {}; check that the driver's RDMA part is loaded (for mlx5: mlx5_ib)",
        driver.as_deref().unwrap_or("none")
    )]
    NoDeviceOf {
        /// The PCI function or auxiliary device.
        function: Function,
        /// The driver that is bound to it.
        driver: Option<String>,
    },
    /// The function's RDMA device is in another namespace.
    #[error("{function}: its RDMA device ({uverbs}) is in another network namespace: a pod has it")]
    Elsewhere {
        /// The PCI function or auxiliary device.
        function: Function,
        /// Its character device, which sysfs lists in every namespace: `uverbs3`.
        uverbs: String,
    },
    /// The function has more than one RDMA device, and one is expected.
    #[error("{function} has {} RDMA devices ({}): expected one", devices.len(), devices.join(", "))]
    SeveralDevices {
        /// The PCI function or auxiliary device.
        function: Function,
        /// The names of its RDMA devices.
        devices: Vec<String>,
    },
    /// The device did not return to the host in time.
    #[error("{function}: its RDMA device did not return to this network namespace within {:.1} s", within.as_secs_f64())]
    NotReturned {
        /// The PCI function or auxiliary device.
        function: Function,
        /// The time waited.
        within: Duration,
    },
    /// Other processes held the lock for moving RDMA devices for the whole timeout.
    #[error(
        "RDMA devices move one at a time: {} has held the lock on {} for {:.1} s",
        holder.as_deref().unwrap_or("another process"), path.display(), waited.as_secs_f64()
    )]
    MovesHeld {
        /// The locked file.
        path: PathBuf,
        /// The time waited.
        waited: Duration,
        /// The process that holds the lock, if it is known: `process 4711 (rdma)`.
        holder: Option<String>,
    },
    /// The lock's file cannot be opened or locked.
    #[error("failed to lock {}: {source}", path.display())]
    Lock {
        /// The file to lock.
        path: PathBuf,
        /// The system call's error.
        source: io::Error,
    },
    /// A netlink request failed.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    /// A file of sysfs cannot be read.
    #[error(transparent)]
    Sysfs(#[from] sysfs::Error),
    /// A namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] netns::Error),
}

impl Error {
    /// Whether the requested name is taken.
    pub fn is_exists(&self) -> bool {
        matches!(self, Self::Netlink(netlink::Error::Exists { .. }))
    }

    /// Whether the device does not exist, or not in this namespace. A clean-up treats this as success.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_did_not_return_is_not_one_that_does_not_exist() {
        let function = || "0000:af:00.3".parse::<Function>().unwrap();
        for gone in [
            Error::NoRdma,
            Error::NoSuchDevice { device: "mlx5_3".into() },
            Error::NoDeviceOf { function: function(), driver: None },
            Error::Elsewhere { function: function(), uverbs: "uverbs3".into() },
            sysfs::Error::NotFound { what: "port 1".into(), path: PathBuf::new() }.into(),
        ] {
            assert!(gone.is_not_found() && !gone.is_exists(), "{gone}");
        }
        for other in [
            Error::TooOld { what: "set the RDMA mode" },
            Error::SeveralDevices { function: function(), devices: Vec::new() },
            Error::NotReturned { function: function(), within: Duration::ZERO },
            Error::MovesHeld { path: PathBuf::new(), waited: Duration::ZERO, holder: None },
            sysfs::Error::Io { path: PathBuf::new(), source: io::ErrorKind::NotFound.into() }.into(),
        ] {
            assert!(!other.is_not_found(), "{other}");
        }
    }
}
