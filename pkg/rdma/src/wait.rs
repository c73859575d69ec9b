//! Waiting for a device to come home.

use std::time::{Duration, Instant};

use netlink::Events;
use sysfs::{Function, Sysfs};

use crate::{Device, Error, Socket, devices_of, open};

/// `NETLINK_KOBJECT_UEVENT`, and the group of the kernel's own messages (2 is udev's).
const UEVENT: isize = 15;
const KERNEL: u32 = 1;

/// Look again at least this often: an event may be lost, and the socket for them refused.
const TICK: Duration = Duration::from_millis(20);

/// Waits until every RDMA device of `function` is in the calling thread's namespace, and returns the first. At
/// once if they are there already.
///
/// # Errors
/// [`Error::NotReturned`] when `deadline` has passed; [`Error::NoRdma`].
///
/// # Kernel
/// When a namespace dies, a work queue moves its devices to the first namespace, milliseconds to seconds after
/// the last process and file descriptor have let go of it. The device then says `KOBJ_ADD` there. The RDMA
/// family's own notifications (`RDMA_NL_GROUP_NOTIFY`, since 6.12) leave moves out.
pub fn wait_for_return(sysfs: &Sysfs, function: &Function, deadline: Instant) -> Result<Device, Error> {
    let begin = Instant::now();
    // Listen before the first look, or an event in between is lost.
    let events = Events::open(UEVENT, KERNEL).ok();
    let mut socket = open(sysfs)?;
    loop {
        if let Some(device) = present(&mut socket, sysfs, function)? {
            return Ok(device);
        }
        if Instant::now() >= deadline {
            let within = deadline.saturating_duration_since(begin);
            return Err(Error::NotReturned { function: function.clone(), within });
        }
        pause(events.as_ref(), deadline);
    }
}

/// Sysfs names a returning device before netlink knows it; only what both know can be used. A device that is
/// elsewhere shows its user-space access here.
fn present(socket: &mut Socket, sysfs: &Sysfs, function: &Function) -> Result<Option<Device>, Error> {
    let here = devices_of(socket, sysfs, function)?;
    let all = here.len() >= sysfs.uverbs(function)?.len();
    Ok(here.into_iter().next().filter(|_| all))
}

fn pause(events: Option<&Events>, deadline: Instant) {
    let heard = events.is_some_and(|events| events.wait(deadline, TICK).is_ok());
    if !heard {
        std::thread::sleep(TICK.min(deadline.saturating_duration_since(Instant::now())));
    }
}
