//! Hardware counters of a port.

use netlink_packet_rdma::{HwCounter, HwCounterTable, NldevAttribute, NldevCommand};
use nix::errno::Errno;

use crate::{Device, Error, Socket, devices, family::message};

/// The hardware counters of a port, in the driver's order and under the driver's names; empty if the driver has
/// none.
///
/// They count for the whole port, whoever uses it.
///
/// # Errors
/// [`Error::NoSuchDevice`] if it is not visible in the socket's namespace.
///
/// # Kernel
/// `RDMA_NLDEV_CMD_STAT_GET` with `RDMA_NLDEV_ATTR_DEV_INDEX` and `RDMA_NLDEV_ATTR_PORT_INDEX`; `EINVAL` both for
/// a device that is not there and for a driver without counters.
#[doc(alias = "rdma statistic show")]
pub fn hw_counters(socket: &mut Socket, device: &Device, port: u32) -> Result<Vec<HwCounter>, Error> {
    let table = hw_counter_table(socket, device, port)?;
    let counters = table.names().map(str::to_owned).zip(table.values.iter().copied());
    Ok(counters.map(|(name, value)| HwCounter { name, value }).collect())
}

/// As [`hw_counters`], for those who ask again and again.
///
/// # Errors
/// As of [`hw_counters`].
pub fn hw_counter_table(socket: &mut Socket, device: &Device, port: u32) -> Result<HwCounterTable, Error> {
    let asked = vec![NldevAttribute::DevIndex(device.index), NldevAttribute::PortIndex(port)];
    let object = format_args!("counters of RDMA device {}, port {port}", device.name);
    match socket.get_at_once("read", &object, message(NldevCommand::StatGet, asked)) {
        Ok(table) => Ok(table),
        Err(error) if error.errno() == Some(Errno::EINVAL) => without_counters(socket, device),
        Err(error) => Err(error.into()),
    }
}

fn without_counters(socket: &mut Socket, device: &Device) -> Result<HwCounterTable, Error> {
    if devices(socket)?.iter().any(|other| other.index == device.index) {
        Ok(HwCounterTable::default())
    } else {
        Err(Error::NoSuchDevice { device: device.name.clone() })
    }
}
