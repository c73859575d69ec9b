//! Moving an RDMA device to another network namespace.

use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_rdma::{NldevAttribute, NldevCommand};
use netns::NetNs;
use nix::errno::Errno;

use crate::{Device, Error, Handle, NetnsMode, handle::message};

/// A device could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The node is in shared mode, in which devices cannot be moved.
    #[error("move RDMA device {device}: the node is in shared RDMA mode")]
    ModeIsShared {
        /// The device's name.
        device: String,
    },
    /// The driver cannot disassociate user contexts, so the kernel does not move its devices.
    #[error(
        "move RDMA device {device}: its driver{} cannot move a device to another network namespace",
        driver.map(|name| format!(" ({name})")).unwrap_or_default()
    )]
    DriverCannotMove {
        /// The device's name.
        device: String,
        /// The driver's name, if it is known.
        driver: Option<&'static str>,
    },
    /// The caller lacks `CAP_NET_ADMIN`.
    #[error(
        "move RDMA device {device}: permission denied: CAP_NET_ADMIN is needed in the host's user namespace and in \
         the target's"
    )]
    NotPermitted {
        /// The device's name.
        device: String,
    },
    /// The device is not in the source namespace.
    #[error("move RDMA device {device}: it is not in the source network namespace")]
    NoSuchDevice {
        /// The device's name.
        device: String,
    },
    /// Any other error.
    #[error(transparent)]
    Other(#[from] Error),
}

impl Handle {
    /// Moves a device of the calling thread's namespace to another one; the handle is of the same namespace.
    ///
    /// Every user context of the device is destroyed, regardless of its owner: move it before the pod's processes start.
    /// The device keeps its name and its index.
    ///
    /// # Errors
    /// [`MoveError::ModeIsShared`] if the node is in shared mode, [`MoveError::DriverCannotMove`] if the driver lacks
    /// `disassociate_ucontext` (rxe, siw, efa and others do).
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_SET` with `RDMA_NLDEV_ATTR_DEV_INDEX` and `RDMA_NLDEV_NET_NS_FD`. With a name in the same message the
    /// kernel would only rename the device. The request must not have further flags: `NLM_F_EXCL` and `NLM_F_REPLACE`
    /// are bits of `NLM_F_DUMP`, and a `SET` as a dump is `EINVAL`.
    #[doc(alias = "rdma dev set netns")]
    pub fn move_device(&self, device: &Device, to: &NetNs) -> Result<(), MoveError> {
        let fd = NldevAttribute::NetNsFd(to.as_fd().as_raw_fd().cast_unsigned());
        let request = message(NldevCommand::Set, vec![NldevAttribute::DevIndex(device.index), fd]);
        let object = format!("RDMA device {}", device.name);
        match self.execute("move", &object, request) {
            Ok(()) => Ok(()),
            Err(error) => Err(explained(self, device, error)),
        }
    }
}

/// Moves a device from its current namespace to another one, by a thread inside the former. `find` selects the device;
/// returns `None` if it finds none.
///
/// # Errors
/// As [`Handle::move_device`], and the errors of `find`.
///
/// # Kernel
/// The device is looked up in the namespace of the handle (`EINVAL` if it is not there), then compared with that
/// of the calling thread (`ENODEV`). Both must be the device's.
pub fn move_device_from(
    from: &NetNs,
    find: impl FnOnce(&Handle) -> Result<Option<Device>, Error>,
    to: &NetNs,
) -> Result<Option<Device>, MoveError> {
    let inside = || {
        let rdma = Handle::open_here()?;
        let Some(device) = find(&rdma)? else { return Ok(None) };
        rdma.move_device(&device, to)?;
        Ok(Some(device))
    };
    from.run_from(&NetNs::current().map_err(Error::from)?, inside).map_err(Error::from)?
}

/// Finds the cause of an error: one error number of the kernel may have several.
fn explained(rdma: &Handle, device: &Device, error: netlink::Error) -> MoveError {
    let name = device.name.clone();
    match error.errno() {
        Some(Errno::EOPNOTSUPP) => match rdma.netns_mode() {
            Ok(NetnsMode::Exclusive) => {
                MoveError::DriverCannotMove { device: name, driver: rdma.driver(device).ok().flatten() }
            }
            Ok(NetnsMode::Shared) => MoveError::ModeIsShared { device: name },
            Err(_) => Error::from(error).into(),
        },
        Some(Errno::EPERM) => MoveError::NotPermitted { device: name },
        Some(Errno::ENODEV) => MoveError::NoSuchDevice { device: name },
        Some(Errno::EINVAL) => match rdma.find_device_by_index(device.index) {
            Ok(None) => MoveError::NoSuchDevice { device: name },
            _ => Error::from(error).into(),
        },
        _ => Error::from(error).into(),
    }
}
