//! An RDMA device into the pod and home again, as a change that can be taken back.

use std::{
    fmt,
    os::fd::AsFd,
    path::PathBuf,
    time::{Duration, Instant},
};

use addr::Attachment;
use cni::{Code, Error as CniError};
use netns::{NetNs, NetNsId};
use plugin::{
    Error, Node, Pod,
    claim::{self, Part},
};
use rdma::{Device, MoveError};
use serde::{Deserialize, Serialize};
use sysfs::Function;
use tracing::warn;

/// How long DEL waits for a device to come home from a namespace that died: the kernel does that in the
/// background, in a tenth of a second when it is idle.
const RETURN: Duration = Duration::from_secs(20);

/// An RDMA device was moved into a pod. It is known again by its name, which no other device of the kernel has,
/// or by its index, for a pod may rename it; and by its GUID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceMove {
    owner: Attachment,
    function: Function,
    device: String,
    /// Not known of a device that another program moved.
    index: Option<u32>,
    /// Nor is this.
    node_guid: Option<String>,
    netns: PathBuf,
    /// Absent if that namespace was gone when this was written down.
    netns_id: Option<NetNsId>,
}

impl DeviceMove {
    /// The move that an ADD will make.
    pub(crate) fn of(
        owner: &Attachment,
        function: &Function,
        device: &Device,
        netns: PathBuf,
        pod: &Pod,
    ) -> Self {
        Self {
            owner: owner.clone(),
            function: function.clone(),
            device: device.name.clone(),
            index: Some(device.index),
            node_guid: Some(device.node_guid.to_string()),
            netns,
            netns_id: Some(pod.id()),
        }
    }

    /// The move that another program made, by what it noted.
    pub(crate) fn noted(owner: &Attachment, function: &Function, device: &str, pod: Option<&NetNs>) -> Self {
        Self {
            owner: owner.clone(),
            function: function.clone(),
            device: device.to_owned(),
            index: None,
            node_guid: None,
            netns: pod.map(|pod| pod.path().to_owned()).unwrap_or_default(),
            netns_id: pod.map(NetNs::id),
        }
    }

    /// Moves the device into the pod and sees that it is there.
    ///
    /// # Errors
    /// If the kernel refuses, or the device is not there afterwards.
    pub(crate) fn move_to_pod(&self, node: &Node, device: &Device, pod: &Pod) -> Result<(), Error> {
        let mut socket = rdma::open(&node.sysfs)?;
        rdma::move_device(&mut socket, device, pod.netns.as_fd()).map_err(refused)?;
        match self.find(pod)? {
            Some(_) => Ok(()),
            None => {
                let msg = format!("RDMA device {} was moved and is not in the pod", self.device);
                Err(CniError::new(Code::NO_RDMA, msg).into())
            }
        }
    }

    /// The device, if it is in the pod.
    fn find(&self, pod: &Pod) -> Result<Option<Device>, Error> {
        let mut socket = match rdma::open_in(&pod.netns) {
            Err(rdma::Error::NoRdma) => return Ok(None),
            opened => opened?,
        };
        Ok(rdma::devices(&mut socket)?.into_iter().find(|device| self.is(device)))
    }

    fn is(&self, device: &Device) -> bool {
        let is_called = device.name == self.device || self.index == Some(device.index);
        is_called && self.node_guid.as_ref().is_none_or(|guid| device.node_guid.to_string() == *guid)
    }

    /// The pod, if it lives.
    fn pod(&self) -> Result<Option<Pod>, Error> {
        self.netns_id.map_or(Ok(None), |id| Pod::find(&self.netns, id))
    }

    /// Brings the device home under its name, unless it is another attachment's by now.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        if claim::is_anothers(node, Part::Rdma, &self.function, &self.owner)? {
            return Ok(());
        }
        if self.at_home(node)?.is_none() {
            match self.pod()? {
                Some(pod) => self.leave(&pod)?,
                None => self.wait_at_home(node)?,
            }
        }
        match self.at_home(node)? {
            Some(name) if name != self.device => self.restore_name(node, &name),
            _ => Ok(()),
        }
    }

    /// The name the device has at home, if it is there.
    fn at_home(&self, node: &Node) -> Result<Option<String>, Error> {
        let names = node.sysfs.rdma_devices(&self.function)?;
        if names.is_empty() || names.contains(&self.device) {
            return Ok(names.into_iter().find(|name| *name == self.device));
        }
        let mut socket = rdma::open(&node.sysfs)?;
        let devices = rdma::devices_of(&mut socket, &node.sysfs, &self.function)?;
        Ok(devices.into_iter().find(|device| self.is(device)).map(|device| device.name))
    }

    /// Moves the device home. One that is not in its living pod was registered anew, or somebody has taken it.
    fn leave(&self, pod: &Pod) -> Result<(), Error> {
        let Some(device) = self.find(pod)? else { return Ok(()) };
        let home = NetNs::current()?;
        match rdma::move_device_from(&pod.netns, &device.name, home.as_fd()) {
            Err(MoveError::NoSuchDevice { .. }) => Ok(()),
            moved => moved.map_err(refused),
        }
    }

    /// Waits for the function's devices, all of which are on their way: one that was registered anew is not known
    /// again.
    fn wait_at_home(&self, node: &Node) -> Result<(), Error> {
        // Without its function, or its driver, there is no device to wait for.
        if !node.sysfs.has(&self.function)?
            || node.sysfs.driver(&self.function)?.is_none()
            || !node.sysfs.has_rdma()?
        {
            return Ok(());
        }
        match rdma::wait_for_return(&node.sysfs, &self.function, Instant::now() + RETURN) {
            // The driver's RDMA part is not loaded any more: no user-space access is left of the device either.
            Err(rdma::Error::NotReturned { .. }) if node.sysfs.uverbs(&self.function)?.is_empty() => {
                warn!(device = %self.device, function = %self.function, "the RDMA device is gone");
                Ok(())
            }
            returned => Ok(returned.map(drop)?),
        }
    }

    /// A name that is taken is no reason to keep a pod from going: the device works under any.
    fn restore_name(&self, node: &Node, name: &str) -> Result<(), Error> {
        let mut socket = rdma::open(&node.sysfs)?;
        match rdma::rename_device(&mut socket, name, &self.device) {
            Err(error) if error.is_exists() => {
                warn!(device = %name, former = %self.device, "the former name is taken; the RDMA device keeps this one");
                Ok(())
            }
            renamed => Ok(renamed?),
        }
    }

    /// Looks whether the device is in this pod.
    ///
    /// # Errors
    /// That it is not.
    pub(crate) fn is_in(&self, pod: &Pod) -> Result<(), Error> {
        if self.find(pod)?.is_some() {
            return Ok(());
        }
        let msg = format!("RDMA device {} is not in the pod", self.device);
        Err(CniError::new(Code::CHANGED, msg).into())
    }

    /// Looks whether the device is in the pod.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        let there = match self.pod()? {
            Some(pod) => self.find(&pod)?.is_some(),
            None => false,
        };
        if there {
            return Ok(());
        }
        let msg = format!("RDMA device {} is not in the pod {} any more", self.device, self.netns.display());
        Err(CniError::new(Code::CHANGED, msg).into())
    }
}

/// The code of a move that failed.
fn refused(error: MoveError) -> Error {
    let code = match error {
        MoveError::ModeIsShared { .. } | MoveError::DriverCannotMove { .. } => Code::NO_RDMA,
        MoveError::Other(error) => return error.into(),
        _ => Code::INTERNAL,
    };
    CniError::new(code, error.to_string()).into()
}

impl fmt::Display for DeviceMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RDMA device {} of {} in ", self.device, self.function)?;
        match self.netns_id {
            Some(id) => id.fmt(f),
            None => f.write_str("a pod that is gone"),
        }
    }
}
