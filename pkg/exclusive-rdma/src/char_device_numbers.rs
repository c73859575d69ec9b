//! RDMA devices whose character devices have other numbers than the device plugin has read.
//!
//! A device plugin reads the numbers of a device's character devices once, and kubelet keeps them for the lifetime of the
//! pod. If a device returns to the host with other numbers, a record of it is written, so that the next pod does not start
//! with the character device of another RDMA device. The record is removed when the numbers are correct again.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use netns::NetNs;
use plugin_runtime::{Error, Node};
use rdma::{CharDevices, Device, Handle};
use serde::{Deserialize, Serialize};
use sysfs::Function;
use tracing::{error, info, warn};

use crate::{error::ExclusiveError, move_guard::MoveGuard};

/// How long a number may be free because a device is being registered, or moved by a program that does not take the lock.
const FREE_NUMBER_TIMEOUT: Duration = Duration::from_millis(200);

/// The numbers that a device should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenumberedDevice {
    boot_id: String,
    /// The index of the RDMA device; a device that was registered again has another one and new numbers.
    index: u32,
    device: String,
    char_devices: CharDevices,
}

impl RenumberedDevice {
    /// Returns the record of a device; `None` if its numbers are correct.
    ///
    /// # Errors
    /// If the record exists and cannot be read.
    pub(crate) fn find(node: &Node, function: &Function, device: &Device) -> Result<Option<Self>, Error> {
        let Some(bytes) = statefile::read(&path(node, function, device.index))? else { return Ok(None) };
        let record: Option<Self> = serde_json::from_slice(&bytes).ok();
        let boot_id = journal::boot_id()?;
        Ok(record.filter(|record| record.boot_id == boot_id && record.index == device.index))
    }

    /// Returns the character devices that the device should have.
    pub(crate) fn expected(&self) -> &CharDevices {
        &self.char_devices
    }

    /// Removes the record of a device that is not registered any more.
    pub(crate) fn remove(node: &Node, function: &Function, device: &Device) -> Result<(), Error> {
        Ok(statefile::remove(&path(node, function, device.index))?)
    }

    /// Removes the record of a device that has its numbers again. `now` are its current ones.
    pub(crate) fn remove_if_correct(
        node: &Node,
        function: &Function,
        device: &Device,
        now: &CharDevices,
    ) -> Result<(), Error> {
        match Self::find(node, function, device)? {
            Some(record) if !now.matches(record.expected()) => Ok(()),
            _ => Self::remove(node, function, device),
        }
    }

    /// Records the numbers that a device should have.
    pub(crate) fn write(
        node: &Node,
        function: &Function,
        device: &Device,
        char_devices: &CharDevices,
    ) -> Result<(), Error> {
        let record = Self {
            boot_id: journal::boot_id()?.into(),
            index: device.index,
            device: device.name.clone(),
            char_devices: char_devices.clone(),
        };
        node.state.make_dir(DIR)?;
        let path = path(node, function, device.index);
        let encode = |e: serde_json::Error| statefile::Error::Io {
            operation: "encode the content of",
            path: path.clone(),
            source: e.into(),
        };
        let bytes = serde_json::to_vec(&record).map_err(encode)?;
        Ok(statefile::replace(&path, 0o600, &bytes)?)
    }
}

const DIR: &str = "renumbered";

/// Returns the file of a record. A function's text is a valid file name: it was checked when it was parsed.
fn path(node: &Node, function: &Function, index: u32) -> PathBuf {
    node.state.root().join(DIR).join(format!("{function}-{index}"))
}

/// Restores the numbers of a device that is on the host, if the kernel assigns them to it, else writes a record. Returns
/// the character devices that it has.
///
/// # Errors
/// If sysfs or the state directory cannot be read or written.
pub(crate) fn restore_numbers(
    node: &Node,
    function: &Function,
    device: &Device,
    expected: &CharDevices,
    _guard: &MoveGuard,
) -> Result<CharDevices, Error> {
    let mut now = CharDevices::of(&node.sysfs, function, &device.name)?;
    if !now.matches(expected) && now.predict_after_move(&node.sysfs)?.matches(expected) {
        move_again(node, device)?;
        now = CharDevices::of(&node.sysfs, function, &device.name)?;
        info!(device = %device.name, %now, "moved an RDMA device again to restore the numbers of its character devices");
    }
    if now.matches(expected) {
        statefile::remove(&path(node, function, device.index))?;
    } else {
        error!(
            device = %device.name, %now, %expected,
            "the RDMA device has other numbers than before: restart the device plugin, which still uses the former ones"
        );
        RenumberedDevice::write(node, function, device, expected)?;
    }
    Ok(now)
}

/// Moves a device of this namespace to a new, unnamed one, and back: it then has the lowest numbers that are free. If this
/// process is killed in between, the kernel deletes that namespace and returns the device.
pub(crate) fn move_again(node: &Node, device: &Device) -> Result<(), Error> {
    let (host, temporary) = (NetNs::current()?, NetNs::make()?);
    let find = |inside: &Handle| inside.find_device_by_index(device.index);
    let moved = node
        .rdma()?
        .move_device(device, &temporary)
        .and_then(|()| rdma::move_device_from(&temporary, find, &host).map(drop));
    // It has been moved before, so its driver supports it. After a failure it is unchanged, or the kernel returns it.
    moved.unwrap_or_else(|error| warn!(device = %device.name, %error, "failed to move an RDMA device again"));
    Ok(())
}

/// Waits until the kernel would assign a device these numbers. `now` are its current ones.
///
/// # Errors
/// If it would assign others.
pub(crate) fn wait_until_assigned(
    node: &Node,
    function: &Function,
    device: &Device,
    now: &CharDevices,
    expected: &CharDevices,
) -> Result<(), Error> {
    let deadline = Instant::now() + FREE_NUMBER_TIMEOUT;
    loop {
        let then = now.predict_after_move(&node.sysfs)?;
        if then.matches(expected) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(match now.matches(expected) {
                true => gap(function, device, now, &then),
                false => refusal(node, function, device, now, expected),
            });
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the error of a device whose numbers are not those that a container has.
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

/// Returns the error of a device that would get other numbers if it were moved now.
fn gap(function: &Function, device: &Device, is: &CharDevices, then: &CharDevices) -> Error {
    ExclusiveError::LowerNumbersFree {
        device: device.name.clone(),
        function: function.clone(),
        is: Box::new(is.clone()),
        then: Box::new(then.clone()),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use state::StateDir;

    use super::*;
    use crate::device_move::tests::device;

    #[test]
    fn a_record_is_of_one_device_of_this_boot() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::new(StateDir::at(dir.path()), Vec::new(), None);
        let function: Function = "0000:af:00.3".parse().unwrap();
        let device = |index| device(index, "mlx5_3", 1);
        let expected: CharDevices = serde_json::from_str(r#"["uverbs3"]"#).unwrap();
        let find = |index| RenumberedDevice::find(&node, &function, &device(index)).unwrap();
        assert!(find(7).is_none());
        RenumberedDevice::write(&node, &function, &device(7), &expected).unwrap();
        assert_eq!(find(7).unwrap().expected(), &expected);
        let now = |names: &str| serde_json::from_str(names).unwrap();
        let remove = |names| RenumberedDevice::remove_if_correct(&node, &function, &device(7), &now(names));
        remove(r#"["uverbs4"]"#).unwrap();
        assert!(find(7).is_some(), "it still has other numbers");
        remove(r#"["uverbs3"]"#).unwrap();
        assert!(find(7).is_none());
        RenumberedDevice::write(&node, &function, &device(7), &expected).unwrap();
        let other = "0000:af:00.4".parse().unwrap();
        assert!(find(8).is_none() && RenumberedDevice::find(&node, &other, &device(7)).unwrap().is_none());

        let file = path(&node, &function, 7);
        let record =
            |boot_id: &str, index| RenumberedDevice { boot_id: boot_id.into(), index, ..find(7).unwrap() };
        let (former_boot, other_index) = (record("former", 7), record(journal::boot_id().unwrap(), 8));
        for record in [former_boot, other_index] {
            std::fs::write(&file, serde_json::to_vec(&record).unwrap()).unwrap();
            assert!(find(7).is_none(), "{record:?}");
        }
        RenumberedDevice::remove(&node, &function, &device(7)).unwrap();
        assert!(!file.exists());
    }
}
