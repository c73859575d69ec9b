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
        let ports = self.inside.rdma.ports(self.device)?;
        let sysfs = self.inside.sysfs.sysfs();
        let is_gid =
            |port: &Port, address| Ok(sysfs.find_gid(&port.device_name, port.port, address)?.is_some());
        if let Some(missing) = missing_port_or_file(&ports, self.device, self.char_devices, is_char_device) {
            return Ok(Some(missing));
        }
        let missing = missing_gid(&ports, self.addresses, is_gid)?;
        let name = &self.device.name;
        Ok(missing.map(|address| format!("address {address} did not become a RoCE v2 GID of {name}")))
    }
}

/// Describes why a device cannot be used: no port is active, or one of the character devices is missing.
fn missing_port_or_file(
    ports: &[Port],
    device: &Device,
    char_devices: &CharDevices,
    is_char_device: impl Fn(&str) -> bool,
) -> Option<String> {
    let name = &device.name;
    if !ports.iter().any(|port| port.state == PortState::Active) {
        let states: Vec<_> = ports.iter().map(|port| format!("{} is {:?}", port.port, port.state)).collect();
        return Some(format!("no port of RDMA device {name} became active ({})", states.join(", ")));
    }
    let file = char_devices.names().iter().find(|file| !is_char_device(file))?;
    Some(format!("/dev/infiniband/{file} of RDMA device {name} did not appear"))
}

/// Returns the first address that is a GID of none of the active ports.
fn missing_gid(
    ports: &[Port],
    addresses: &[IpAddr],
    is_gid: impl Fn(&Port, IpAddr) -> Result<bool, Error>,
) -> Result<Option<IpAddr>, Error> {
    for address in addresses {
        let mut is_there = false;
        for port in ports.iter().filter(|port| port.state == PortState::Active) {
            is_there = is_there || is_gid(port, *address)?;
        }
        if !is_there {
            return Ok(Some(*address));
        }
    }
    Ok(None)
}

/// Whether a character device exists in `/dev/infiniband`, from where containers get it.
fn is_char_device(name: &str) -> bool {
    let file = Path::new("/dev/infiniband").join(name);
    fs::metadata(file).is_ok_and(|meta| meta.file_type().is_char_device())
}

#[cfg(test)]
mod tests {
    use rdma::{LinkLayer, PhysState};

    use super::*;
    use crate::device_move::tests::device;

    fn port(number: u32, state: PortState) -> Port {
        Port {
            device: 7,
            device_name: "mlx5_3".into(),
            port: number,
            state,
            phys_state: PhysState::LinkUp,
            link: None,
            link_name: None,
            link_layer: LinkLayer::Ethernet,
        }
    }

    #[test]
    fn one_active_port_and_every_character_device_are_needed() {
        let char_devices: CharDevices = serde_json::from_str(r#"["umad3", "uverbs3"]"#).unwrap();
        let missing = |ports: &[Port], files: &[&str]| {
            missing_port_or_file(ports, &device(7, "mlx5_3", 1), &char_devices, |file| files.contains(&file))
        };
        let (up, down) = (port(2, PortState::Active), port(1, PortState::Down));
        let all = ["umad3", "uverbs3"];
        assert_eq!(missing(&[down.clone(), up.clone()], &all), None);
        let text = missing(&[down], &all).unwrap();
        assert!(text.contains("no port of RDMA device mlx5_3 became active (1 is Down)"), "{text}");
        assert!(missing(&[], &all).is_some());
        for (files, expected) in [(["umad3"], "uverbs3"), (["uverbs3"], "umad3")] {
            let text = missing(std::slice::from_ref(&up), &files).unwrap();
            assert!(text.starts_with(&format!("/dev/infiniband/{expected} ")), "{text}");
        }
    }

    #[test]
    fn every_address_is_a_gid_of_an_active_port() {
        let ports = [port(1, PortState::Down), port(2, PortState::Active), port(3, PortState::Active)];
        let addresses = ["10.7.0.5", "fd00:7::5"].map(|address| address.parse::<IpAddr>().unwrap());
        let missing = |gids: &[(u32, IpAddr)]| {
            missing_gid(&ports, &addresses, |port, address| Ok(gids.contains(&(port.port, address)))).unwrap()
        };
        let [v4, v6] = addresses;
        assert_eq!(missing(&[(2, v4), (3, v6)]), None);
        assert_eq!(missing(&[(2, v4)]), Some(v6));
        assert_eq!(missing(&[(3, v6)]), Some(v4));
        assert_eq!(missing(&[(1, v4), (2, v6)]), Some(v4), "its port is down");
    }
}
