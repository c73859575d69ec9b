//! Binding a VF's driver again, so that its RDMA device gets the GUIDs that were set through the PF.

use identifiers::PciAddress;
use plugin_runtime::{Error, Node};
use rdma::{CharDevices, Device};
use sysfs::Function;
use tracing::{error, info, warn};

use crate::{
    char_device_numbers::{RenumberedDevice, refusal, wait_until_assigned},
    move_guard::MoveGuard,
};

/// The driver of a VF whose RDMA device, if it has one, is on the host, ready to be bound again. The RDMA device keeps its
/// name and the numbers of its character devices. Until this is dropped, no RDMA device of the node moves.
#[derive(Debug)]
pub struct DriverRebind<'a> {
    node: &'a Node,
    vf: PciAddress,
    before: Option<RdmaDeviceBefore>,
    _guard: MoveGuard,
}

/// The RDMA device of a VF before its driver is unbound.
#[derive(Debug)]
struct RdmaDeviceBefore {
    device: Device,
    /// The character devices that it should have.
    expected: CharDevices,
}

impl<'a> DriverRebind<'a> {
    /// Prepares the rebind for an ADD. Nothing is changed yet.
    ///
    /// # Errors
    /// If the kernel would not assign the RDMA device the numbers that it should have.
    pub fn prepare(node: &'a Node, vf: PciAddress) -> Result<Self, Error> {
        let this = Self::of_returned(node, vf)?;
        if let Some(RdmaDeviceBefore { device, expected }) = &this.before {
            let function = Function::Pci(vf);
            let now = CharDevices::of(&node.sysfs, &function, &device.name)?;
            wait_until_assigned(node, &function, device, &now, expected)?;
        }
        Ok(this)
    }

    /// Prepares the rebind of a VF that returned from a pod. Its driver may be unbound already.
    ///
    /// # Errors
    /// If the lock cannot be taken, or the RDMA device cannot be read.
    pub fn of_returned(node: &'a Node, vf: PciAddress) -> Result<Self, Error> {
        let function = Function::Pci(vf);
        let guard = MoveGuard::acquire(node, &function)?;
        Ok(Self { node, vf, before: RdmaDeviceBefore::find(node, &function)?, _guard: guard })
    }

    /// Binds the driver again. If the RDMA device has other numbers then, that is recorded for the next ADD.
    ///
    /// # Errors
    /// If the driver cannot be bound.
    pub fn run(&self, driver: &str) -> Result<(), Error> {
        self.bind(driver).map(drop)
    }

    /// Binds the driver again for an ADD.
    ///
    /// # Errors
    /// If the driver cannot be bound, or the RDMA device has other numbers than before, which is also recorded.
    pub fn run_for_pod(&self, driver: &str) -> Result<(), Error> {
        let Some((device, now, expected)) = self.bind(driver)? else { return Ok(()) };
        Err(refusal(self.node, &Function::Pci(self.vf), &device, &now, &expected))
    }

    /// Binds the driver again. Returns the RDMA device, if it has other numbers, with those that it has and should have.
    fn bind(&self, driver: &str) -> Result<Option<(Device, CharDevices, CharDevices)>, Error> {
        let (node, vf) = (self.node, self.vf);
        info!(%vf, driver, "rebinding the driver of a VF");
        node.sysfs.unbind_driver(vf)?;
        node.sysfs.bind_driver(vf, driver)?;
        let Some(before) = &self.before else { return Ok(None) };
        before.compare(node, &Function::Pci(vf))
    }
}

impl RdmaDeviceBefore {
    fn find(node: &Node, function: &Function) -> Result<Option<Self>, Error> {
        if !node.sysfs.has_rdma()? {
            return Ok(None);
        }
        let Some(device) = node.rdma()?.devices_of(&node.sysfs, function)?.into_iter().next() else {
            return Ok(None);
        };
        let expected = match RenumberedDevice::find(node, function, &device)? {
            Some(record) => record.expected().clone(),
            None => CharDevices::of(&node.sysfs, function, &device.name)?,
        };
        Ok(Some(Self { device, expected }))
    }

    /// Restores the name of the device, and records other numbers: the device plugin still uses the former ones.
    fn compare(
        &self,
        node: &Node,
        function: &Function,
    ) -> Result<Option<(Device, CharDevices, CharDevices)>, Error> {
        // Its index, which a record has in its name, belongs to a device that is not registered any more.
        RenumberedDevice::remove(node, function, &self.device)?;
        let Some(device) = node.rdma()?.devices_of(&node.sysfs, function)?.into_iter().next() else {
            warn!(%function, "the driver did not create an RDMA device again");
            return Ok(None);
        };
        let (now, expected) = (CharDevices::of(&node.sysfs, function, &device.name)?, &self.expected);
        if device.name != self.device.name
            && let Err(error) = node.rdma()?.rename_device(&device, &self.device.name)
        {
            warn!(%error, device = %device.name, former = %self.device.name, "failed to restore the name of an RDMA device");
        }
        if now.matches(expected) {
            return Ok(None);
        }
        error!(
            device = %device.name, %now, %expected,
            "the RDMA device has other numbers than before: restart the device plugin, which still uses the former ones"
        );
        RenumberedDevice::write(node, function, &device, expected)?;
        Ok(Some((device, now, expected.clone())))
    }
}
