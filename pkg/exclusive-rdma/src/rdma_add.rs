//! An ADD that moves the RDMA devices of a function to a pod.

use std::{net::IpAddr, time::Duration};

use cni::{AddRequest, Error as CniError};
use journal::Journal;
use netns::NetNs;
use plugin_runtime::{
    Error, Node,
    attachment::{self, NodeChange},
};
use rdma::{CharDevices, Device, NetnsMode};
use state::claim::{ClaimKind, DeviceClaim};
use sysfs::Function;
use tracing::info;

use crate::{
    ExclusiveRdmaRequirement,
    change::{PLUGIN, RdmaChange},
    char_device_numbers::{RenumberedDevice, refusal, restore_numbers, wait_until_assigned},
    device_move::DeviceMove,
    device_ready,
    error::ExclusiveError,
    move_guard::MoveGuard,
    pod_map_update::{PodMapUpdate, set_rdma_info},
    port_counters,
};

/// How long a device may take to return from its former pod.
const ADD_RETURN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a device may be missing in sysfs while the kernel registers it.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(2);

/// An ADD whose preconditions were checked.
#[derive(Debug)]
pub struct RdmaAdd<'a, 'r> {
    /// The CNI request.
    pub request: &'a AddRequest<'r>,
    /// The host side of the call.
    pub node: &'a Node,
    /// The pod's network namespace.
    pub pod: &'a NetNs,
    /// The PCI or auxiliary function whose RDMA devices are moved.
    pub function: &'a Function,
    /// Whether the caller moves the IPoIB link, which the kernel creates again on the host after an InfiniBand device has
    /// moved.
    pub moves_ipoib: bool,
}

/// A device that was moved to the pod.
#[derive(Debug)]
pub struct MovedDevice {
    device: Device,
    char_devices: CharDevices,
}

impl MovedDevice {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// Adds the device to an entry of the pod map.
    pub fn fill(&self, entry: &mut podmap::RdmaInfo) {
        set_rdma_info(entry, &self.device, &self.char_devices);
    }
}

impl RdmaAdd<'_, '_> {
    /// Claims the function's RDMA devices and moves them to the pod.
    ///
    /// # Errors
    /// If another attachment has them, there are none, they cannot be moved, or their character devices would not have the
    /// same numbers in the pod.
    pub fn attach<C>(&self, journal: &mut Journal<C>) -> Result<Vec<MovedDevice>, Error>
    where
        C: NodeChange + From<RdmaChange>,
    {
        let AddRequest { attachment, netns, .. } = self.request;
        let (node, function) = (self.node, self.function.clone());
        let claim = DeviceClaim::of(ClaimKind::Rdma, function, attachment, netns.clone(), self.pod.id())?;
        journal.record_and_apply(RdmaChange::Claim(claim.clone()).into(), |_| {
            claim.acquire(&node.state, &|| node.claims_lock(), |former| {
                attachment::revert::<RdmaChange>(node, PLUGIN, former)
            })
        })?;
        let devices = self.devices()?;
        devices.into_iter().map(|device| self.move_device(journal, device)).collect()
    }

    /// Adds the device to the pod map's entry, which the chain's main plugin wrote.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn update_pod_map(
        &self,
        journal: &mut Journal<RdmaChange>,
        moved: &[MovedDevice],
    ) -> Result<(), Error> {
        let Some(MovedDevice { device, char_devices }) = moved.first() else { return Ok(()) };
        let described = PodMapUpdate::of(self.node, &self.request.attachment, device, char_devices);
        let Some((described, entry)) = described else { return Ok(()) };
        journal.record_and_apply(RdmaChange::Described(described.clone()), |_| {
            described.write(self.node, &entry)
        })
    }

    /// Waits until the pod can use the devices, if the configuration requires it.
    ///
    /// # Errors
    /// What is missing when the timeout expires.
    pub fn wait_until_ready(
        &self,
        need: ExclusiveRdmaRequirement,
        moved: &[MovedDevice],
        addresses: &[IpAddr],
    ) -> Result<(), Error> {
        let ExclusiveRdmaRequirement::Ready(timeout) = need else { return Ok(()) };
        moved.iter().try_for_each(|MovedDevice { device, char_devices }| {
            device_ready::wait(self.node, self.pod, device, char_devices, addresses, timeout)
        })
    }

    fn move_device<C>(&self, journal: &mut Journal<C>, device: Device) -> Result<MovedDevice, Error>
    where
        C: NodeChange + From<RdmaChange>,
    {
        self.require_not_infiniband(&device)?;
        let guard = MoveGuard::acquire(self.node, self.function)?;
        let (device, present) = self.with_char_devices(device)?;
        let char_devices = self.char_devices(&device, present, &guard)?;
        let counters = port_counters::read(self.node, &device)?;
        let device_move =
            DeviceMove::of(self.request, self.function, &device, self.pod, &char_devices, counters);
        let (node, pod) = (self.node, self.pod);
        journal.record_and_apply(RdmaChange::Move(device_move.clone()).into(), |_| {
            device_move.move_to_pod(node, &device, pod, &guard)
        })?;
        info!(device = %device.name, function = %self.function, %char_devices, "moved an RDMA device to the pod");
        Ok(MovedDevice { device, char_devices })
    }

    /// Returns a device with its character devices, which sysfs lists by its name. udev may have renamed it since it was read,
    /// while this call waited for the lock.
    fn with_char_devices(&self, device: Device) -> Result<(Device, CharDevices), Error> {
        let sysfs = &self.node.sysfs;
        let char_devices = CharDevices::of(sysfs, self.function, &device.name)?;
        if char_devices.has_uverbs() || sysfs.all_uverbs()?.is_none() {
            return Ok((device, char_devices));
        }
        let function = self.function.clone();
        let Some(renamed) = self.node.rdma()?.find_device_by_index(device.index)? else {
            return Err(ExclusiveError::NoUverbs { device: device.name, function }.into());
        };
        let char_devices = CharDevices::of(sysfs, self.function, &renamed.name)?;
        if !char_devices.has_uverbs() {
            return Err(ExclusiveError::NoUverbs { device: renamed.name, function }.into());
        }
        Ok((renamed, char_devices))
    }

    /// Returns the character devices of a device, which will have the same numbers in the pod.
    fn char_devices(
        &self,
        device: &Device,
        mut now: CharDevices,
        guard: &MoveGuard,
    ) -> Result<CharDevices, Error> {
        let (node, function) = (self.node, self.function);
        if let Some(renumbered) = RenumberedDevice::find(node, function, device)? {
            now = restore_numbers(node, function, device, renumbered.expected(), guard)?;
            if !now.matches(renumbered.expected()) {
                return Err(refusal(node, function, device, &now, renumbered.expected()));
            }
        }
        wait_until_assigned(node, function, device, &now, &now)?;
        Ok(now)
    }

    /// Returns the RDMA devices of the function, and waits for them if they are returning to the host.
    fn devices(&self) -> Result<Vec<Device>, Error> {
        let (node, function) = (self.node, self.function);
        if let Some(devices) = node.rdma()?.devices_on_host(&node.sysfs, function)? {
            return Ok(devices);
        }
        // sysfs lists uverbs devices in every namespace. With one, the device is returning from a pod that is gone, or the
        // claim would have failed. Without one, there is no device, or it is just being registered.
        let exists = !node.sysfs.uverbs(function)?.is_empty();
        let timeout = if exists { ADD_RETURN_TIMEOUT } else { REGISTRATION_TIMEOUT };
        let deadline = node.budget.until("an RDMA device to return to the host", timeout);
        match node.rdma()?.wait_for_return(&node.sysfs, function, deadline.at()) {
            Err(rdma::Error::NotReturned { .. }) if !exists => {
                let driver = node.sysfs.driver(function)?;
                Err(rdma::Error::NoDeviceOf { function: function.clone(), driver }.into())
            }
            devices => Ok(devices?),
        }
    }

    /// # Kernel
    /// `ib_ipoib` is a client of the RDMA device: it deletes its link when the device moves, and creates another in the
    /// initial namespace.
    fn require_not_infiniband(&self, device: &Device) -> Result<(), Error> {
        if self.moves_ipoib || self.node.sysfs.link_layer(&device.name, 1)? != "InfiniBand" {
            return Ok(());
        }
        let msg = format!(
            "RDMA device {} of {} is InfiniBand: a move would remove its IPoIB interface from the pod",
            device.name, self.function
        );
        let details = "the kernel deletes that interface and creates another on the host; nothing was changed. Use \
                       the plugin ib-sriov with rdmaIsolation for InfiniBand, or shared mode";
        Err(CniError::config(msg).with_details(details).into())
    }
}

/// Checks that the node is in exclusive RDMA mode.
///
/// # Errors
/// If it is in shared mode, or has no RDMA.
pub fn require_exclusive_mode(node: &Node) -> Result<(), Error> {
    match node.rdma()?.netns_mode()? {
        NetnsMode::Exclusive => Ok(()),
        NetnsMode::Shared => Err(ExclusiveError::ModeIsShared.into()),
    }
}
