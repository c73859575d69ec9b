//! The move of an RDMA device to the pod, as a change that can be reverted.

use std::{
    fmt,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use cni::AddRequest;
use identifiers::Attachment;
use netns::{NetNs, NetNsId};
use plugin_runtime::{Error, Node, is_attached_by_go_since, other_netns};
use rdma::{
    CharDevices, Device, Handle, MoveError,
    resource::{CounterCriteria, OptionalCounters},
};
use serde::{Deserialize, Serialize};
use state::claim::{self, ClaimKind};
use sysfs::Function;
use tracing::warn;

use crate::{
    char_device_numbers::{refusal, restore_numbers},
    error::ExclusiveError,
    move_guard::MoveGuard,
    port_counters,
};

/// How long DEL waits for a device to return from a namespace that was deleted. The kernel returns it in the background,
/// within 0.1 s if it is idle.
const DEL_RETURN_TIMEOUT: Duration = Duration::from_secs(20);

/// The interval of checks for a device that returned under a name that sysfs cannot show, and the delay before other
/// namespaces are searched.
const UNREADABLE_NAME_INTERVAL: Duration = Duration::from_secs(2);

/// How long a device that has returned may lack one of its character devices: the kernel adds its clients one after
/// another.
const CHAR_DEVICES_TIMEOUT: Duration = Duration::from_secs(2);

/// The change that an RDMA device was moved to a pod. It is identified by its name, which is unique in the kernel, or by
/// its index, because a pod may rename it; and by its node GUID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceMove {
    owner: Attachment,
    function: Function,
    device: String,
    /// Unknown for a device that the Go plugin moved.
    index: Option<u32>,
    /// Unknown for a device that the Go plugin moved.
    node_guid: Option<String>,
    /// Whether adaptive moderation of completions was on (`RDMA_NLDEV_ATTR_DEV_DIM`).
    #[serde(default)]
    adaptive_moderation: Option<bool>,
    /// By which criteria the kernel bound the queue pairs of each port to counter sets; absent for a driver without them, and
    /// in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counter_criteria: Vec<CounterCriteria>,
    /// The enabled optional counters of each port; absent as `counter_criteria`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    optional_counters: Vec<OptionalCounters>,
    netns: PathBuf,
    /// `None` if that namespace was already gone when this was recorded.
    netns_id: Option<NetNsId>,
    /// The character devices before the move.
    #[serde(default)]
    char_devices: CharDevices,
}

impl DeviceMove {
    /// Returns the move that an ADD will make.
    pub(crate) fn of(
        request: &AddRequest<'_>,
        function: &Function,
        device: &Device,
        pod: &NetNs,
        char_devices: &CharDevices,
        (counter_criteria, optional_counters): (Vec<CounterCriteria>, Vec<OptionalCounters>),
    ) -> Self {
        Self {
            owner: request.attachment.clone(),
            function: function.clone(),
            device: device.name.clone(),
            index: Some(device.index),
            node_guid: Some(device.node_guid.to_string()),
            adaptive_moderation: device.adaptive_moderation,
            counter_criteria,
            optional_counters,
            netns: request.netns.clone(),
            netns_id: Some(pod.id()),
            char_devices: char_devices.clone(),
        }
    }

    /// Returns the move that the Go plugin made, by the state that it saved.
    pub fn from_go_state(owner: &Attachment, function: &Function, device: &str, pod: Option<&NetNs>) -> Self {
        Self {
            owner: owner.clone(),
            function: function.clone(),
            device: device.to_owned(),
            index: None,
            node_guid: None,
            adaptive_moderation: None,
            counter_criteria: Vec::new(),
            optional_counters: Vec::new(),
            netns: pod.map(|pod| pod.path().to_owned()).unwrap_or_default(),
            netns_id: pod.map(NetNs::id),
            char_devices: CharDevices::default(),
        }
    }

    /// Moves the device to the pod, and checks that its character devices have the same numbers.
    ///
    /// # Errors
    /// If the kernel refuses, or the device has other numbers afterwards.
    pub(crate) fn move_to_pod(
        &self,
        node: &Node,
        device: &Device,
        pod: &NetNs,
        _guard: &MoveGuard,
    ) -> Result<(), Error> {
        node.rdma()?.move_device(device, pod).map_err(refused)?;
        let now = CharDevices::of(&node.sysfs, &self.function, &device.name)?;
        if now.matches(&self.char_devices) {
            return Ok(());
        }
        Err(refusal(node, &self.function, device, &now, &self.char_devices))
    }

    /// Returns the device, if it is in the handle's namespace.
    fn find(&self, rdma: &Handle) -> Result<Option<Device>, rdma::Error> {
        let found = match self.index {
            Some(index) => rdma.find_device_by_index(index)?,
            None => rdma.find_device(&self.device)?,
        };
        Ok(found.filter(|device| self.is(device)))
    }

    /// Returns the device, if it is in the pod.
    fn find_in(&self, pod: &NetNs) -> Result<Option<Device>, Error> {
        match rdma::Handle::open_in(pod) {
            Err(rdma::Error::NoRdma) => Ok(None),
            opened => Ok(self.find(&opened?)?),
        }
    }

    fn is(&self, device: &Device) -> bool {
        let is_identified = device.name == self.device || self.index == Some(device.index);
        is_identified && self.node_guid.as_ref().is_none_or(|guid| device.node_guid.to_string() == *guid)
    }

    /// Opens the pod's namespace; `None` if it is gone or if its path names another one.
    fn pod(&self) -> Result<Option<NetNs>, Error> {
        self.netns_id.map_or(Ok(None), |id| plugin_runtime::find_netns(&self.netns, id))
    }

    /// Returns the device to the host with its name and numbers, unless it belongs to another attachment by now.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        if claim::is_claimed_by_other(
            &node.state,
            node.claims_lock().at(),
            ClaimKind::Rdma,
            &self.function,
            &self.owner,
        )? {
            return Ok(());
        }
        let mut is_restored = false;
        if !self.is_in_host_sysfs(node) {
            if is_attached_by_go_since(node, ClaimKind::Rdma, &self.function, &self.owner)? {
                return Ok(());
            }
            match self.pod()? {
                Some(pod) => is_restored = self.move_to_host(node, &pod)?,
                None => self.wait_on_host(node)?,
            }
        }
        match self.name_on_host(node)? {
            Some(name) if name == self.device && is_restored => self.restore_numbers_or_record(node),
            Some(_) => self.restore(node).and_then(|()| self.restore_numbers_or_record(node)),
            None => Ok(()),
        }
    }

    /// Whether sysfs lists the device on the host under its name.
    fn is_in_host_sysfs(&self, node: &Node) -> bool {
        node.sysfs.rdma_devices(&self.function).is_ok_and(|names| names.contains(&self.device))
    }

    /// Returns the name of the device on the host, if it is there.
    ///
    /// # Kernel
    /// A pod may have renamed it to `..` or `a/b`: then sysfs does not show it, or does not show any device of the node
    /// (`EIO`). So sysfs is only used to find the device under its original name.
    fn name_on_host(&self, node: &Node) -> Result<Option<String>, Error> {
        if self.is_in_host_sysfs(node) {
            return Ok(Some(self.device.clone()));
        }
        if matches!(node.rdma(), Err(rdma::Error::NoRdma)) {
            return Ok(None);
        }
        Ok(self.find_on_host(node)?.map(|device| device.name))
    }

    fn find_on_host(&self, node: &Node) -> Result<Option<Device>, Error> {
        let rdma = node.rdma()?;
        if self.index.is_some()
            && let Some(device) = self.find(rdma)?
        {
            return Ok(Some(device));
        }
        let devices = rdma.devices_of(&node.sysfs, &self.function)?;
        Ok(devices.into_iter().find(|device| self.is(device)))
    }

    /// Moves the device to the host. Returns whether it did: a device that is not in its pod may have returned already, or
    /// was registered again, or was moved by another process.
    fn move_to_host(&self, node: &Node, pod: &NetNs) -> Result<bool, Error> {
        if !node.sysfs.has_rdma()? {
            return Ok(false);
        }
        if self.move_to_host_from(node, pod)? {
            return Ok(true);
        }
        if self.name_on_host(node)?.is_some() { Ok(false) } else { self.move_to_host_from_any(node) }
    }

    /// Searches all namespaces in use for the device, which the pod may have moved on, and moves it to the host.
    fn move_to_host_from_any(&self, node: &Node) -> Result<bool, Error> {
        for netns in other_netns()? {
            // If the namespace ends meanwhile, the kernel returns the device.
            if self.find_in(&netns).is_ok_and(|device| device.is_some()) {
                warn!(device = %self.device, netns = %netns.id(), "the pod moved the RDMA device to another network namespace");
                return self.move_to_host_from(node, &netns);
            }
        }
        Ok(false)
    }

    /// Restores the device's name and moves it to the host, if it is in that namespace.
    fn move_to_host_from(&self, node: &Node, pod: &NetNs) -> Result<bool, Error> {
        let host = NetNs::current()?;
        let _guard = MoveGuard::acquire(node, &self.function)?;
        let named = |rdma: &Handle| {
            let found = self.find(rdma)?;
            found.map(|device| self.restore_settings(rdma, device)).transpose()
        };
        match rdma::move_device_from(pod, named, &host) {
            Err(MoveError::NoSuchDevice { .. } | MoveError::Other(rdma::Error::NoRdma)) => Ok(false),
            moved => moved.map(|_| true).map_err(refused),
        }
    }

    /// Waits until the function's devices have returned. All of them, because a device that was registered again cannot
    /// be identified.
    fn wait_on_host(&self, node: &Node) -> Result<(), Error> {
        // Without the function or its driver, there is no device to wait for.
        if !node.sysfs.has(&self.function)?
            || node.sysfs.driver(&self.function)?.is_none()
            || !node.sysfs.has_rdma()?
        {
            return Ok(());
        }
        let rdma = node.rdma()?;
        let deadline = node.budget.until("an RDMA device to return to the host", DEL_RETURN_TIMEOUT);
        let mut searched = false;
        let returned = loop {
            // On the host under an invalid name, it is missing in sysfs or makes the list unreadable.
            if self.find(rdma)?.is_some() {
                return Ok(());
            }
            let soon = deadline.at().min(Instant::now() + UNREADABLE_NAME_INTERVAL);
            match rdma.wait_for_return(&node.sysfs, &self.function, soon) {
                Err(rdma::Error::NotReturned { function, .. }) if deadline.has_passed() => {
                    break Err(rdma::Error::NotReturned { function, within: deadline.waited() });
                }
                Err(rdma::Error::NotReturned { .. }) if !searched => {
                    self.move_to_host_from_any(node)?;
                    searched = true;
                }
                Err(rdma::Error::NotReturned { .. }) => {}
                Err(error) if self.find(rdma)?.is_none() => break Err(error),
                Err(_) => return Ok(()),
                returned => break returned,
            }
        };
        match returned {
            // The driver's RDMA part is not loaded any more: the device has no uverbs device either.
            Err(rdma::Error::NotReturned { .. }) if node.sysfs.uverbs(&self.function)?.is_empty() => {
                warn!(device = %self.device, function = %self.function, "the RDMA device is gone");
                Ok(())
            }
            returned => Ok(returned.map(drop)?),
        }
    }

    fn restore(&self, node: &Node) -> Result<(), Error> {
        let Some(device) = self.find_on_host(node)? else { return Ok(()) };
        Ok(self.restore_settings(node.rdma()?, device).map(drop)?)
    }

    /// Restores name, adaptive moderation and counters of a device in the handle's namespace.
    fn restore_settings(&self, rdma: &Handle, device: Device) -> Result<Device, rdma::Error> {
        port_counters::restore(rdma, &device, &self.counter_criteria, &self.optional_counters);
        if let Some(on) = self.adaptive_moderation.filter(|on| device.adaptive_moderation == Some(!on)) {
            rdma.set_adaptive_moderation(&device, on)?;
        }
        self.restore_name(rdma, device)
    }

    /// Restores the name of a device in the handle's namespace. If that is taken, DEL succeeds anyway, because the device
    /// works under any name; but a name that makes sysfs unreadable is replaced by `rdmaN`.
    fn restore_name(&self, rdma: &Handle, device: Device) -> Result<Device, rdma::Error> {
        if device.name == self.device {
            return Ok(device);
        }
        let fallback = if is_file_name(&device.name) { None } else { Some(format!("rdma{}", device.index)) };
        for name in [Some(&self.device), fallback.as_ref()].into_iter().flatten() {
            match rdma.rename_device(&device, name) {
                Err(error) if error.is_exists() => warn!(%name, "the former name of an RDMA device is taken"),
                renamed => return renamed.map(|()| Device { name: name.clone(), ..device }),
            }
        }
        Ok(device)
    }

    /// Restores the numbers that the device had before the ADD. If that fails, DEL succeeds anyway, and a record is kept
    /// for the next ADD.
    fn restore_numbers_or_record(&self, node: &Node) -> Result<(), Error> {
        if self.char_devices.is_empty() || self.has_its_numbers(node)? {
            return Ok(());
        }
        // A device that was registered again has new numbers.
        let device = self.find_on_host(node)?.filter(|device| self.index == Some(device.index));
        let Some(device) = device else { return Ok(()) };
        let guard = MoveGuard::acquire(node, &self.function)?;
        restore_numbers(node, &self.function, &device, &self.char_devices, &guard).map(drop)
    }

    fn has_its_numbers(&self, node: &Node) -> Result<bool, Error> {
        let deadline = Instant::now() + CHAR_DEVICES_TIMEOUT;
        loop {
            let now = CharDevices::of(&node.sysfs, &self.function, &self.device)?;
            if now.has_same_kinds_as(&self.char_devices, &node.sysfs)? || Instant::now() >= deadline {
                return Ok(now.matches(&self.char_devices));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Checks that the device is in this pod.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn require_in_netns(&self, pod: &NetNs) -> Result<(), Error> {
        if self.find_in(pod)?.is_some() {
            return Ok(());
        }
        Err(ExclusiveError::NotInPod(self.device.clone()).into())
    }

    /// Checks that the device is in the pod, with the numbers that it had before.
    ///
    /// # Errors
    /// The difference.
    pub(crate) fn verify(&self, node: &Node) -> Result<(), Error> {
        let there = self.pod()?.map_or(Ok(None), |pod| self.find_in(&pod))?;
        let Some(device) = there else {
            return Err(
                ExclusiveError::Gone { device: self.device.clone(), netns: self.netns.clone() }.into()
            );
        };
        let now = CharDevices::of(&node.sysfs, &self.function, &device.name)?;
        if now.matches(&self.char_devices) {
            return Ok(());
        }
        let (is, was) = (Box::new(now), Box::new(self.char_devices.clone()));
        Err(ExclusiveError::OtherNumbers { device: self.device.clone(), is, was }.into())
    }
}

/// Whether a device of that name can be listed and found in sysfs.
fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', char::REPLACEMENT_CHARACTER])
}

fn refused(error: MoveError) -> Error {
    match error {
        MoveError::Other(error) => error.into(),
        error => ExclusiveError::Refused(error).into(),
    }
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

#[cfg(test)]
pub(crate) mod tests;
