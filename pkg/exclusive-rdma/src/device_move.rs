//! An RDMA device into the pod and home again, as a change that can be taken back.

use std::{
    fmt,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use cni::AddRequest;
use identifiers::Attachment;
use netns::{NetNs, NetNsId};
use plugin_runtime::{Error, Node, other_netns};
use rdma::{CharDevices, Device, Handle, MoveError};
use serde::{Deserialize, Serialize};
use state::claim::{self, ClaimKind};
use sysfs::Function;
use tracing::warn;

use crate::{
    char_device_numbers::{refusal, restore_numbers},
    error::ExclusiveError,
    move_guard::MoveGuard,
};

/// How long DEL waits for a device to come home from a namespace that died: the kernel does that in the
/// background, in a tenth of a second when it is idle.
const DEL_RETURN_TIMEOUT: Duration = Duration::from_secs(20);

/// How often it is looked whether a device came home under a name that sysfs cannot show, and after how long it is looked for
/// in other namespaces.
const UNREADABLE_NAME_INTERVAL: Duration = Duration::from_secs(2);

/// How long a device that came home may be without one of its character devices: the kernel gives it back to one client
/// after another.
const CHAR_DEVICES_TIMEOUT: Duration = Duration::from_secs(2);

/// An RDMA device was moved into a pod. It is known again by its name, which no other device of the kernel has,
/// or by its index, for a pod may rename it; and by its GUID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceMove {
    owner: Attachment,
    function: Function,
    device: String,
    /// Not known of a device that another program moved.
    index: Option<u32>,
    /// Nor is this.
    node_guid: Option<String>,
    /// Whether it moderated completions by itself.
    #[serde(default)]
    adaptive_moderation: Option<bool>,
    netns: PathBuf,
    /// Absent if that namespace was gone when this was written down.
    netns_id: Option<NetNsId>,
    /// The numbers it had before it was moved.
    #[serde(default)]
    char_devices: CharDevices,
}

impl DeviceMove {
    /// The move that an ADD will make.
    pub(crate) fn of(
        request: &AddRequest<'_>,
        function: &Function,
        device: &Device,
        pod: &NetNs,
        char_devices: &CharDevices,
    ) -> Self {
        Self {
            owner: request.attachment.clone(),
            function: function.clone(),
            device: device.name.clone(),
            index: Some(device.index),
            node_guid: Some(device.node_guid.to_string()),
            adaptive_moderation: device.adaptive_moderation,
            netns: request.netns.clone(),
            netns_id: Some(pod.id()),
            char_devices: char_devices.clone(),
        }
    }

    /// The move that another program made, by what it noted.
    pub fn from_go_state(owner: &Attachment, function: &Function, device: &str, pod: Option<&NetNs>) -> Self {
        Self {
            owner: owner.clone(),
            function: function.clone(),
            device: device.to_owned(),
            index: None,
            node_guid: None,
            adaptive_moderation: None,
            netns: pod.map(|pod| pod.path().to_owned()).unwrap_or_default(),
            netns_id: pod.map(NetNs::id),
            char_devices: CharDevices::default(),
        }
    }

    /// Moves the device into the pod, and sees that it has its numbers there.
    ///
    /// # Errors
    /// If the kernel refuses, or the device has other numbers afterwards.
    pub(crate) fn move_to_pod(
        &self,
        node: &Node,
        device: &Device,
        pod: &NetNs,
        _turn: &MoveGuard,
    ) -> Result<(), Error> {
        node.rdma()?.move_device(device, pod).map_err(refused)?;
        let now = CharDevices::of(&node.sysfs, &self.function, &device.name)?;
        if now.matches(&self.char_devices) {
            return Ok(());
        }
        Err(refusal(node, &self.function, device, &now, &self.char_devices))
    }

    /// The device, if it is in the handle's namespace.
    fn find(&self, rdma: &Handle) -> Result<Option<Device>, rdma::Error> {
        let found = match self.index {
            Some(index) => rdma.find_device_by_index(index)?,
            None => rdma.find_device(&self.device)?,
        };
        Ok(found.filter(|device| self.is(device)))
    }

    /// The device, if it is in the pod.
    fn find_in(&self, pod: &NetNs) -> Result<Option<Device>, Error> {
        match rdma::Handle::open_in(pod) {
            Err(rdma::Error::NoRdma) => Ok(None),
            opened => Ok(self.find(&opened?)?),
        }
    }

    fn is(&self, device: &Device) -> bool {
        let is_called = device.name == self.device || self.index == Some(device.index);
        is_called && self.node_guid.as_ref().is_none_or(|guid| device.node_guid.to_string() == *guid)
    }

    /// The pod's namespace, if it lives. Another one under the same path is not it.
    fn pod(&self) -> Result<Option<NetNs>, Error> {
        self.netns_id.map_or(Ok(None), |id| plugin_runtime::find_netns(&self.netns, id))
    }

    /// Brings the device home under its name and with its numbers, unless it is another attachment's by now.
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
        let mut left_restored = false;
        if !self.is_in_host_sysfs(node) {
            match self.pod()? {
                Some(pod) => left_restored = self.move_to_host(node, &pod)?,
                None => self.wait_on_host(node)?,
            }
        }
        match self.name_on_host(node)? {
            Some(name) if name == self.device && left_restored => self.restore_numbers_or_record(node),
            Some(_) => self.restore(node).and_then(|()| self.restore_numbers_or_record(node)),
            None => Ok(()),
        }
    }

    /// Whether sysfs shows the device at home under its name.
    fn is_in_host_sysfs(&self, node: &Node) -> bool {
        node.sysfs.rdma_devices(&self.function).is_ok_and(|names| names.contains(&self.device))
    }

    /// The name the device has at home, if it is there.
    ///
    /// # Kernel
    /// A pod may have called it `..` or `a/b`: then sysfs does not show it, or shows no device of the node at all
    /// (`EIO`). So sysfs is believed where it shows the device under its name, and asked for no other.
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

    /// Moves the device home, and says whether it did. One that is not in its living pod came home by itself, was
    /// registered anew, or somebody has taken it.
    fn move_to_host(&self, node: &Node, pod: &NetNs) -> Result<bool, Error> {
        if !node.sysfs.has_rdma()? {
            return Ok(false);
        }
        if self.move_to_host_from(node, pod)? {
            return Ok(true);
        }
        if self.name_on_host(node)?.is_some() { Ok(false) } else { self.move_to_host_from_any(node) }
    }

    /// Moves the device home from wherever the pod moved it on to, if it is in a namespace that something holds.
    fn move_to_host_from_any(&self, node: &Node) -> Result<bool, Error> {
        for netns in other_netns()? {
            // One that ends meanwhile gives the device back by itself.
            if self.find_in(&netns).is_ok_and(|device| device.is_some()) {
                warn!(device = %self.device, netns = %netns.id(), "the pod moved the RDMA device on to another namespace");
                return self.move_to_host_from(node, &netns);
            }
        }
        Ok(false)
    }

    /// Moves the device home as it was, if it is in that namespace.
    fn move_to_host_from(&self, node: &Node, pod: &NetNs) -> Result<bool, Error> {
        let home = NetNs::current()?;
        let _turn = MoveGuard::acquire(node, &self.function)?;
        let named = |rdma: &Handle| {
            let found = self.find(rdma)?;
            found.map(|device| self.restore_name_and_moderation(rdma, device)).transpose()
        };
        match rdma::move_device_from(pod, named, &home) {
            Err(MoveError::NoSuchDevice { .. } | MoveError::Other(rdma::Error::NoRdma)) => Ok(false),
            moved => moved.map(|_| true).map_err(refused),
        }
    }

    /// Waits for the function's devices, all of which are on their way: one that was registered anew is not known
    /// again.
    fn wait_on_host(&self, node: &Node) -> Result<(), Error> {
        // Without its function, or its driver, there is no device to wait for.
        if !node.sysfs.has(&self.function)?
            || node.sysfs.driver(&self.function)?.is_none()
            || !node.sysfs.has_rdma()?
        {
            return Ok(());
        }
        let rdma = node.rdma()?;
        let deadline = node.budget.until("an RDMA device on its way home", DEL_RETURN_TIMEOUT);
        let mut fetched = false;
        let returned = loop {
            // Under an odd name it is at home, and does not show or spoils the list.
            if self.find(rdma)?.is_some() {
                return Ok(());
            }
            let soon = deadline.at().min(Instant::now() + UNREADABLE_NAME_INTERVAL);
            match rdma.wait_for_return(&node.sysfs, &self.function, soon) {
                Err(rdma::Error::NotReturned { function, .. }) if deadline.has_passed() => {
                    break Err(rdma::Error::NotReturned { function, within: deadline.waited() });
                }
                Err(rdma::Error::NotReturned { .. }) if !fetched => {
                    self.move_to_host_from_any(node)?;
                    fetched = true;
                }
                Err(rdma::Error::NotReturned { .. }) => {}
                Err(error) if self.find(rdma)?.is_none() => break Err(error),
                Err(_) => return Ok(()),
                returned => break returned,
            }
        };
        match returned {
            // The driver's RDMA part is not loaded any more: no user-space access is left of the device either.
            Err(rdma::Error::NotReturned { .. }) if node.sysfs.uverbs(&self.function)?.is_empty() => {
                warn!(device = %self.device, function = %self.function, "the RDMA device is gone");
                Ok(())
            }
            returned => Ok(returned.map(drop)?),
        }
    }

    fn restore(&self, node: &Node) -> Result<(), Error> {
        let Some(device) = self.find_on_host(node)? else { return Ok(()) };
        Ok(self.restore_name_and_moderation(node.rdma()?, device).map(drop)?)
    }

    /// A device of the handle's namespace with the name and the setting that it had.
    fn restore_name_and_moderation(&self, rdma: &Handle, device: Device) -> Result<Device, rdma::Error> {
        if let Some(on) = self.adaptive_moderation.filter(|on| device.adaptive_moderation == Some(!on)) {
            rdma.set_adaptive_moderation(&device, on)?;
        }
        self.restore_name(rdma, device)
    }

    /// Gives a device of the handle's namespace the name that it had. One that is taken is no reason to keep a pod from
    /// going, for the device works under any; but it comes home under none that spoils sysfs for all.
    fn restore_name(&self, rdma: &Handle, device: Device) -> Result<Device, rdma::Error> {
        if device.name == self.device {
            return Ok(device);
        }
        let harmless = if is_file_name(&device.name) { None } else { Some(format!("rdma{}", device.index)) };
        for name in [Some(&self.device), harmless.as_ref()].into_iter().flatten() {
            match rdma.rename_device(&device, name) {
                Err(error) if error.is_exists() => warn!(%name, "an RDMA device's former name is taken"),
                renamed => return renamed.map(|()| Device { name: name.clone(), ..device }),
            }
        }
        Ok(device)
    }

    /// Sees that the device has the numbers that it had before the ADD. That it cannot have them is no reason to keep a
    /// pod from going; it is remembered for the next one.
    fn restore_numbers_or_record(&self, node: &Node) -> Result<(), Error> {
        if self.char_devices.is_empty() || self.has_its_numbers(node)? {
            return Ok(());
        }
        // One that was registered anew has numbers of its own.
        let device = self.find_on_host(node)?.filter(|device| self.index == Some(device.index));
        let Some(device) = device else { return Ok(()) };
        let turn = MoveGuard::acquire(node, &self.function)?;
        restore_numbers(node, &self.function, &device, &self.char_devices, &turn).map(drop)
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

    /// Looks whether the device is in this pod.
    ///
    /// # Errors
    /// That it is not.
    pub(crate) fn require_in_netns(&self, pod: &NetNs) -> Result<(), Error> {
        if self.find_in(pod)?.is_some() {
            return Ok(());
        }
        Err(ExclusiveError::NotInPod(self.device.clone()).into())
    }

    /// Looks whether the device is in the pod, with the numbers that it had before.
    ///
    /// # Errors
    /// How it differs.
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

/// Whether a device of that name can be listed and found in sysfs by everybody.
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
