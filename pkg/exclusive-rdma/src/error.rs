//! What can go wrong with an RDMA device of one pod, beside what can with any device.

use std::path::PathBuf;

use plugin_runtime::{Condition, PluginError};
use rdma::{CharDevices, MoveError};
use sysfs::Function;

/// An RDMA device could not be moved, or is not where it was moved to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExclusiveError {
    /// The node is in the wrong mode.
    #[error(
        "RDMA subsystem namespace awareness mode is set to shared, expecting it to be set to exclusive, \
         invalid system configurations"
    )]
    ModeIsShared,
    /// The kernel, or the driver, does not move the device.
    #[error(transparent)]
    Refused(MoveError),
    /// The pod requires RDMA, and its port or its GIDs were not ready in time.
    #[error("{missing} within {waited}")]
    NotReady { missing: String, waited: String },
    /// The device's character devices are not those that a container was given.
    #[error(
        "RDMA device {device} of {function} has {is} and had {was}: the pod's containers were given the device nodes of the \
         former numbers, which are another device's or nobody's now"
    )]
    Renumbered {
        device: String,
        function: Function,
        is: Box<CharDevices>,
        was: Box<CharDevices>,
        note: PathBuf,
    },
    /// The device would have other character devices if it were moved.
    #[error(
        "RDMA device {device} of {function} has {is} and would have {then} in the pod: the kernel gives a device that moves \
         the lowest numbers that are free, and lower ones are"
    )]
    LowerNumbersFree { device: String, function: Function, is: Box<CharDevices>, then: Box<CharDevices> },
    /// CHECK: the device is not in the pod.
    #[error("RDMA device {0} is not in the pod")]
    NotInPod(String),
    /// CHECK: the device was in the pod.
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
            Self::Refused(_) => Condition::Internal,
            Self::NotInPod(_) | Self::Gone { .. } | Self::OtherNumbers { .. } => Condition::Changed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::ModeIsShared => {
                "run `silkrail mode set exclusive --persist`; the kernel allows it only while no other network \
                 namespace exists, so at boot before the container runtime"
                    .into()
            }
            Self::NotReady { .. } => {
                "the pod requires RDMA (rdma.require) and was not started without it; is the link's other end \
                 up (`rdma link`), is the GID table full (/sys/class/infiniband/*/ports/*/gids)?"
                    .into()
            }
            Self::Renumbered { note, .. } => format!(
                "another program moved an RDMA device at the same time, or made or removed one (`(flock 9; \
                 COMMAND) 9>>/sys/bus/pci/drivers_probe` keeps one out of our moves); restart the device plugin, so that it \
                 reads the numbers anew, remove {} if it is there, and start the pod again",
                note.display()
            ),
            Self::LowerNumbersFree { .. } => {
                "nothing was changed; the pod's containers were given the device nodes of the former numbers. A driver \
                 was unbound or VFs were removed: bind it again, or make the VFs anew; or remove all VFs, make them \
                 anew and restart the device plugin"
                    .into()
            }
            Self::Refused(_) | Self::NotInPod(_) | Self::Gone { .. } | Self::OtherNumbers { .. } => String::new(),
        }
    }
}
