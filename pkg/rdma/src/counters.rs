//! Hardware counters of a port.

use netlink_packet_rdma::{HwCounter, HwCounterTable, NldevAttribute, NldevCommand};
use nix::errno::Errno;

use crate::{Device, Error, Handle, handle::message};

impl Handle {
    /// Returns the hardware counters of a port, in the driver's order and with the driver's names; empty if the driver has
    /// none.
    ///
    /// They count for the whole port, across all its users.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if it is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_STAT_GET` with `RDMA_NLDEV_ATTR_DEV_INDEX` and `RDMA_NLDEV_ATTR_PORT_INDEX`; `EINVAL` both for
    /// a device that is not there and for a driver without counters.
    #[doc(alias = "rdma statistic show")]
    pub fn hw_counters(&self, device: &Device, port: u32) -> Result<Vec<HwCounter>, Error> {
        let table = self.hw_counter_table(device, port)?;
        let counters = table.names().map(str::to_owned).zip(table.values.iter().copied());
        Ok(counters.map(|(name, value)| HwCounter { name, value }).collect())
    }

    /// As [`Handle::hw_counters`], in a compact form for frequent reads.
    ///
    /// # Errors
    /// As of [`Handle::hw_counters`].
    pub fn hw_counter_table(&self, device: &Device, port: u32) -> Result<HwCounterTable, Error> {
        let request = vec![NldevAttribute::DevIndex(device.index), NldevAttribute::PortIndex(port)];
        let object = format_args!("counters of RDMA device {}, port {port}", device.name);
        match self.get_at_once("read", &object, message(NldevCommand::StatGet, request)) {
            Ok(table) => Ok(table),
            Err(error) if error.errno() == Some(Errno::EINVAL) => without_counters(self, device),
            Err(error) => Err(error.into()),
        }
    }
}

fn without_counters(rdma: &Handle, device: &Device) -> Result<HwCounterTable, Error> {
    if rdma.find_device_by_index(device.index)?.is_some() {
        Ok(HwCounterTable::default())
    } else {
        Err(Error::NoSuchDevice { device: device.name.clone() })
    }
}
