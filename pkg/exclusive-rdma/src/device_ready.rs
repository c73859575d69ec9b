//! Waiting until a pod can use its RDMA device.

use std::{fs, net::IpAddr, os::unix::fs::FileTypeExt, path::Path, thread, time::Duration};

use netns::NetNs;
use plugin_runtime::{Error, Node};
use rdma::{CharDevices, Device, Handle, Port, PortState};
use sysfs::DetachedSysfs;

use crate::error::ExclusiveError;

/// Waits until the pod's processes can use a device that is in the pod: its port is active, the pod's addresses are
/// GIDs of it, and its character devices exist.
///
/// The kernel notifies only open uverbs contexts about a new GID, and opening one needs the driver's library. So this
/// polls, first often, then every 20 ms.
///
/// # Errors
/// What is missing when the timeout expires.
pub(crate) fn wait(
    node: &Node,
    pod: &NetNs,
    device: &Device,
    char_devices: &CharDevices,
    addresses: &[IpAddr],
    timeout: Duration,
) -> Result<(), Error> {
    let check = ReadyCheck { inside: PodSysfs::of(pod)?, device, char_devices, addresses };
    let deadline = node.budget.until("the pod's RDMA device to be ready", timeout);
    let mut delay = Duration::from_millis(1);
    loop {
        let Some(missing) = check.missing()? else { return Ok(()) };
        if deadline.has_passed() {
            let waited = plugin_runtime::seconds(deadline.waited());
            return Err(ExclusiveError::NotReady { missing, waited }.into());
        }
        thread::sleep(delay);
        delay = (delay * 2).min(Duration::from_millis(20));
    }
}

/// The RDMA devices and the sysfs of the pod's namespace.
struct PodSysfs {
    rdma: Handle,
    sysfs: DetachedSysfs,
}

impl PodSysfs {
    fn of(pod: &NetNs) -> Result<Self, Error> {
        let rdma = Handle::open_in(pod)?;
        let failed = |source| Error::Wait { what: "the pod's GIDs (mounting its sysfs)", source };
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
    /// Describes the first thing that is missing; `None` if the device is ready.
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

/// Whether a character device exists in `/dev/infiniband`, from where containers get it.
fn is_char_device(name: &str) -> bool {
    let file = Path::new("/dev/infiniband").join(name);
    fs::metadata(file).is_ok_and(|meta| meta.file_type().is_char_device())
}
