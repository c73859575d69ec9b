//! RDMA devices that have other numbers than whoever hands them out has seen.
//!
//! A device plugin reads the numbers of a device's character devices once, and the kubelet keeps what it was told for as
//! long as the pod lives. Where a device came home with other numbers, in spite of everything, that is written down: the
//! next pod does not start with a character device that is another's. It is forgotten when the numbers are right again.

use std::path::PathBuf;

use netns::NetNs;
use plugin_runtime::{Error, Node};
use rdma::{CharDevices, Device, Handle};
use serde::{Deserialize, Serialize};
use sysfs::Function;
use tracing::{error, info, warn};

use crate::{error::ExclusiveError, move_guard::MoveGuard};

/// The numbers that a device should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenumberedDevice {
    boot_id: String,
    /// The kernel's number for the device: one that was registered anew is seen anew.
    index: u32,
    device: String,
    char_devices: CharDevices,
}

impl RenumberedDevice {
    /// What is known of a device of a function; `None` if nothing is wrong with it.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub(crate) fn find(node: &Node, function: &Function, device: &Device) -> Result<Option<Self>, Error> {
        let Some(bytes) = statefile::read(&path(node, function, device.index))? else { return Ok(None) };
        let noted: Option<Self> = serde_json::from_slice(&bytes).ok();
        let boot_id = journal::boot_id()?;
        Ok(noted.filter(|noted| noted.boot_id == boot_id && noted.index == device.index))
    }

    /// The numbers that the device should have.
    pub(crate) fn rightful(&self) -> &CharDevices {
        &self.char_devices
    }

    fn write(
        node: &Node,
        function: &Function,
        device: &Device,
        char_devices: &CharDevices,
    ) -> Result<(), Error> {
        let noted = Self {
            boot_id: journal::boot_id()?.into(),
            index: device.index,
            device: device.name.clone(),
            char_devices: char_devices.clone(),
        };
        node.state.make_dir(DIR)?;
        let path = path(node, function, device.index);
        let encode = |e: serde_json::Error| statefile::Error::Io {
            operation: "encode what is to be written to",
            path: path.clone(),
            source: e.into(),
        };
        let bytes = serde_json::to_vec(&noted).map_err(encode)?;
        Ok(statefile::replace(&path, 0o600, &bytes)?)
    }
}

const DIR: &str = "renumbered";

/// Where it is written down. A function's text is a file name: it was checked when it was parsed.
fn path(node: &Node, function: &Function, index: u32) -> PathBuf {
    node.state.root().join(DIR).join(format!("{function}-{index}"))
}

/// Gives a device that is at home the numbers that it should have, if the kernel can be brought to it, and remembers
/// them if not. Returns those that it has.
///
/// # Errors
/// If sysfs or the state directory cannot be read or written.
pub(crate) fn restore_numbers(
    node: &Node,
    function: &Function,
    device: &Device,
    rightful: &CharDevices,
    _turn: &MoveGuard,
) -> Result<CharDevices, Error> {
    let mut now = CharDevices::of(&node.sysfs, function, &device.name)?;
    if !now.matches(rightful) && now.predict_after_move(&node.sysfs)?.matches(rightful) {
        move_again(node, device)?;
        now = CharDevices::of(&node.sysfs, function, &device.name)?;
        info!(device = %device.name, %now, "moved once more for the sake of its numbers");
    }
    if now.matches(rightful) {
        statefile::remove(&path(node, function, device.index))?;
    } else {
        error!(
            device = %device.name, %now, %rightful,
            "the RDMA device has other numbers than before: restart the device plugin, for it hands out the former"
        );
        RenumberedDevice::write(node, function, device, rightful)?;
    }
    Ok(now)
}

/// Moves a device of this namespace to one that nobody else knows, and home again: it then has the lowest numbers that
/// are free. If this process is killed in between, the namespace dies, and the kernel brings the device home.
fn move_again(node: &Node, device: &Device) -> Result<(), Error> {
    let (home, aside) = (NetNs::current()?, NetNs::make()?);
    let find = |inside: &Handle| inside.find_device_by_index(device.index);
    let moved = node
        .rdma()?
        .move_device(device, &aside)
        .and_then(|()| rdma::move_device_from(&aside, find, &home).map(drop));
    // It has been moved before, so it can be. A failure leaves it as it was, or to the kernel.
    moved.unwrap_or_else(|error| warn!(device = %device.name, %error, "could not be moved once more"));
    Ok(())
}

/// The error of a device whose numbers are not those that a container was given.
pub(crate) fn refusal(
    node: &Node,
    function: &Function,
    device: &Device,
    is: &CharDevices,
    was: &CharDevices,
) -> Error {
    ExclusiveError::Renumbered {
        device: device.name.clone(),
        function: function.clone(),
        is: Box::new(is.clone()),
        was: Box::new(was.clone()),
        note: path(node, function, device.index),
    }
    .into()
}

/// The error of a device that would lose its numbers if it were moved now.
pub(crate) fn gap(function: &Function, device: &Device, is: &CharDevices, then: &CharDevices) -> Error {
    ExclusiveError::LowerNumbersFree {
        device: device.name.clone(),
        function: function.clone(),
        is: Box::new(is.clone()),
        then: Box::new(then.clone()),
    }
    .into()
}
