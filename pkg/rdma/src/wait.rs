//! Waiting for a device to come home.

use std::time::{Duration, Instant};

use netlink::Events;
use sysfs::{Function, Sysfs};

use crate::{Device, Error, Socket, devices_of};

/// `NETLINK_KOBJECT_UEVENT`, and the group of the kernel's own messages (2 is udev's).
const UEVENT: isize = 15;
const KERNEL: u32 = 1;

/// Look again at least this often: an event may be lost, and the socket for them refused.
const TICK: Duration = Duration::from_millis(20);

/// Waits until every RDMA device of `function` is in the calling thread's namespace, and returns them. At once if they
/// are there already.
///
/// Until sysfs says that they are there, the kernel is asked nothing else: many may be waiting at the same time, and a
/// list has an answer for each device of the node.
///
/// # Errors
/// [`Error::NotReturned`] when `deadline` has passed.
///
/// # Kernel
/// When a namespace dies, a work queue moves its devices to the first namespace, milliseconds to seconds after
/// the last process and file descriptor have let go of it. The device then says `KOBJ_ADD` there. The RDMA
/// family's own notifications (`RDMA_NL_GROUP_NOTIFY`, since 6.12) leave moves out.
pub fn wait_for_return(
    socket: &mut Socket,
    sysfs: &Sysfs,
    function: &Function,
    deadline: Instant,
) -> Result<Vec<Device>, Error> {
    if let Some(devices) = devices_at_home(socket, sysfs, function)? {
        return Ok(devices);
    }
    let begin = Instant::now();
    // Listen before the next look, or an event in between is lost.
    let events = Events::open(UEVENT, KERNEL).ok();
    loop {
        if let Some(devices) = devices_at_home(socket, sysfs, function)? {
            return Ok(devices);
        }
        if Instant::now() >= deadline {
            let within = deadline.saturating_duration_since(begin);
            return Err(Error::NotReturned { function: function.clone(), within });
        }
        pause(events.as_ref(), deadline);
    }
}

/// The RDMA devices of `function`, if all of them are in the calling thread's namespace and whole.
///
/// # Errors
/// [`Error::Netlink`], [`Error::Sysfs`].
///
/// # Kernel
/// Sysfs names a returning device before netlink knows it; only what both know can be used. Its character device is
/// seen here wherever the device is, and appears here only after the device, and after netlink knows it.
pub fn devices_at_home(
    socket: &mut Socket,
    sysfs: &Sysfs,
    function: &Function,
) -> Result<Option<Vec<Device>>, Error> {
    let (here, everywhere) = (sysfs.rdma_devices(function)?.len(), sysfs.uverbs(function)?.len());
    let have_theirs = here <= everywhere || sysfs.all_uverbs()?.is_none();
    if here == 0 || here < everywhere || !have_theirs {
        return Ok(None);
    }
    let devices = devices_of(socket, sysfs, function)?;
    Ok(Some(devices).filter(|devices| devices.len() >= here))
}

fn pause(events: Option<&Events>, deadline: Instant) {
    let heard = events.is_some_and(|events| events.wait(deadline, TICK).is_ok());
    if !heard {
        std::thread::sleep(TICK.min(deadline.saturating_duration_since(Instant::now())));
    }
}
