//! The errors of moving RDMA devices, besides those of [`rdma::Error`].

use std::path::PathBuf;

use plugin_runtime::{Condition, FIRMWARE_TIMEOUT, PluginError};
use rdma::{CharDevices, MoveError};
use sysfs::Function;

/// An RDMA device could not be moved, or CHECK found a difference.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExclusiveError {
    /// The node is in shared RDMA mode.
    #[error(
        "RDMA subsystem namespace awareness mode is set to shared, expecting it to be set to exclusive, \
         invalid system configurations"
    )]
    ModeIsShared,
    /// The kernel or the driver refused to move the device.
    #[error(transparent)]
    Refused(MoveError),
    /// The pod requires RDMA, and its port or its GIDs were not ready in time.
    #[error("{missing} within {waited}")]
    NotReady { missing: String, waited: String },
    /// The device's character devices are not those that a container has.
    #[error(
        "RDMA device {device} of {function} has {is} and had {was}: the pod's containers have the device nodes of the \
         former numbers, which now belong to another device or to none"
    )]
    Renumbered {
        device: String,
        function: Function,
        is: Box<CharDevices>,
        was: Box<CharDevices>,
        note: PathBuf,
    },
    /// The device has no uverbs device, although `ib_uverbs` is loaded.
    #[error("RDMA device {device} of {function} has no uverbs device")]
    NoUverbs { device: String, function: Function },
    /// The device would get other character devices by a move.
    #[error(
        "RDMA device {device} of {function} has {is} and would have {then} in the pod: the kernel assigns the \
         lowest numbers that are free to a device that moves, and lower ones are free"
    )]
    LowerNumbersFree { device: String, function: Function, is: Box<CharDevices>, then: Box<CharDevices> },
    /// CHECK: the device is not in the pod.
    #[error("RDMA device {0} is not in the pod")]
    NotInPod(String),
    /// CHECK: the device is not in the pod's namespace any more, or that is gone.
    #[error("RDMA device {device} is not in the pod {} any more", netns.display())]
    Gone { device: String, netns: PathBuf },
    /// CHECK: the device has other character devices.
    #[error("RDMA device {device} has {is}, and had {was} before")]
    OtherNumbers { device: String, is: Box<CharDevices>, was: Box<CharDevices> },
}

impl PluginError for ExclusiveError {
    fn condition(&self) -> Condition {
        match self {
            Self::ModeIsShared
            | Self::Refused(MoveError::ModeIsShared { .. } | MoveError::DriverCannotMove { .. })
            | Self::NotReady { .. }
            | Self::Renumbered { .. }
            | Self::LowerNumbersFree { .. } => Condition::NoRdma,
            Self::NoUverbs { .. } => Condition::TryAgain,
            Self::Refused(error) if is_firmware_timeout(error) => Condition::TryAgain,
            Self::Refused(_) => Condition::Internal,
            Self::NotInPod(_) | Self::Gone { .. } | Self::OtherNumbers { .. } => Condition::Changed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::ModeIsShared | Self::Refused(MoveError::ModeIsShared { .. }) => {
                "run `silkrail mode set exclusive --persist`; the kernel allows it only while no other network \
                 namespace exists, so at boot before the container runtime"
                    .into()
            }
            Self::Refused(MoveError::DriverCannotMove { .. }) => {
                "use such cards in shared RDMA mode, with macvlan or ipvlan".into()
            }
            Self::Refused(error) if is_firmware_timeout(error) => FIRMWARE_TIMEOUT.into(),
            Self::NotReady { .. } => {
                "the pod requires RDMA (rdma.require) and was not started without it; check that the link's other end \
                 is up (`rdma link`) and that the GID table is not full (/sys/class/infiniband/*/ports/*/gids)"
                    .into()
            }
            Self::Renumbered { note, .. } => format!(
                "another program moved, created or removed an RDMA device at the same time (`(flock 9; \
                 COMMAND) 9>>/sys/bus/pci/drivers_probe` prevents that); restart the device plugin, so that it \
                 reads the numbers again, remove {} if it exists, and start the pod again",
                note.display()
            ),
            Self::NoUverbs { .. } => {
                "ib_uverbs creates it when the device is registered: nothing was changed; check the kernel log if it \
                 does not exist soon"
                    .into()
            }
            Self::LowerNumbersFree { .. } => {
                "nothing was changed; the pod's containers have the device nodes of the current numbers. A driver \
                 was unbound, as for vfio-pci, or VFs were removed: bind it again, or run `silkrail vf renumber` and delete \
                 this pod; or remove all VFs, recreate them and restart the device plugin"
                    .into()
            }
            Self::Refused(_) | Self::NotInPod(_) | Self::Gone { .. } | Self::OtherNumbers { .. } => String::new(),
        }
    }
}

/// Whether the firmware did not answer when the kernel registered the device again (`drivers/infiniband/core/device.c:
/// rdma_dev_change_netns`): it is in the pod then.
fn is_firmware_timeout(error: &MoveError) -> bool {
    matches!(error, MoveError::Other(rdma::Error::Netlink(error)) if error.is_firmware_timeout())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_move_has_a_remedy_whichever_call_noticed_it() {
        let device = || "mlx5_2".to_owned();
        let shared = ExclusiveError::Refused(MoveError::ModeIsShared { device: device() });
        assert_eq!(shared.details(), ExclusiveError::ModeIsShared.details());
        let driver = Some("rxe");
        let fixed = ExclusiveError::Refused(MoveError::DriverCannotMove { device: device(), driver });
        assert!(fixed.details().contains("shared RDMA mode"), "{}", fixed.details());
        assert!(matches!(fixed.condition(), Condition::NoRdma));
    }
}
