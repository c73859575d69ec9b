//! Waiting until a pod can use its RDMA device.

use std::{fs, net::IpAddr, os::unix::fs::FileTypeExt, path::Path, thread, time::Duration};

use netns::NetNs;
use plugin_runtime::{Error, Node};
use rdma::{CharDevices, Device, Handle, Port, PortState};
use sysfs::DetachedSysfs;

use crate::error::ExclusiveError;

/// Waits until the pod's processes can use a device that is in the pod: its port is active, the pod's addresses are
/// GIDs of it, and its character devices are there.
///
/// The kernel tells nobody but open uverbs contexts about a new GID, and opening one takes a driver's own library: so it
/// is asked, first often, then every 20 ms.
///
/// # Errors
/// What is missing when the time is over.
pub(crate) fn wait(
    node: &Node,
    pod: &NetNs,
    device: &Device,
    char_devices: &CharDevices,
    addresses: &[IpAddr],
    timeout: Duration,
) -> Result<(), Error> {
    let look = ReadyCheck { inside: PodSysfs::of(pod)?, device, char_devices, addresses };
    let deadline = node.budget.until("the pod's RDMA device to be ready", timeout);
    let mut pause = Duration::from_millis(1);
    loop {
        let Some(missing) = look.missing()? else { return Ok(()) };
        if deadline.has_passed() {
            let waited = plugin_runtime::seconds(deadline.waited());
            return Err(ExclusiveError::NotReady { missing, waited }.into());
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// What the pod sees.
struct PodSysfs {
    rdma: Handle,
    sysfs: DetachedSysfs,
}

impl PodSysfs {
    fn of(pod: &NetNs) -> Result<Self, Error> {
        let rdma = Handle::open_in(pod)?;
        let failed = |source| Error::Wait { what: "the pod's GIDs (a view of its sysfs)", source };
        let sysfs = pod.run(DetachedSysfs::mount)?.map_err(failed)?;
        Ok(Self { rdma, sysfs })
    }
}

struct ReadyCheck<'a> {
    inside: PodSysfs,
    device: &'a Device,
    char_devices: &'a CharDevices,
    addresses: &'a [IpAddr],
}

impl ReadyCheck<'_> {
    /// What is not there yet; `None` if nothing is missing.
    fn missing(&self) -> Result<Option<String>, Error> {
        let name = &self.device.name;
        let ports = self.inside.rdma.ports(self.device)?;
        let active: Vec<_> = ports.iter().filter(|port| port.state == PortState::Active).collect();
        if active.is_empty() {
            let states: Vec<_> =
                ports.iter().map(|port| format!("{} is {:?}", port.port, port.state)).collect();
            return Ok(Some(format!("no port of RDMA device {name} became active ({})", states.join(", "))));
        }
        if let Some(file) = self.char_devices.names().iter().find(|file| !is_char_device(file)) {
            return Ok(Some(format!("/dev/infiniband/{file} of RDMA device {name} did not appear")));
        }
        for address in self.addresses {
            if !self.is_gid(&active, *address)? {
                return Ok(Some(format!("address {address} did not become a RoCE v2 GID of {name}")));
            }
        }
        Ok(None)
    }

    fn is_gid(&self, ports: &[&Port], address: IpAddr) -> Result<bool, Error> {
        for port in ports {
            if self.inside.sysfs.sysfs().find_gid(&port.device_name, port.port, address)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a character device is where containers are given it from.
fn is_char_device(name: &str) -> bool {
    let file = Path::new("/dev/infiniband").join(name);
    fs::metadata(file).is_ok_and(|meta| meta.file_type().is_char_device())
}
