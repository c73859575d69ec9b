//! The other settings of a VF's link that a pod can change, and that are restored on the host.
//!
//! A link keeps them when it moves to another network namespace. Three parts of the kernel hold them: the link itself, its
//! driver, and the NAPI instances of its queues.

use std::io;

use ethtool::DriverSettings;
use ethtool_netlink::RingSettings;
use identifiers::LinkName;
use nix::errno::Errno;
use plugin_runtime::{Error, Node, sysctl};
use rtnl::{Link, LinkSettings as KernelSettings};
use serde::{Deserialize, Serialize};
use sysfs::NapiSettings;
use tracing::warn;

use crate::error::VfError;

/// Settings of a VF's link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VfLinkSettings {
    link: KernelSettings,
    driver: DriverSettings,
    /// Those of the driver that the ioctl does not have; empty in journals of earlier releases.
    #[serde(default)]
    rings: RingSettings,
    napi: NapiSettings,
}

impl VfLinkSettings {
    /// Returns the settings of a link that is on the host. Settings of the driver that cannot be read are left out.
    pub(crate) fn of(node: &Node, link: &Link) -> Result<Self, Error> {
        // An ioctl and a sysfs path need a valid name.
        let name: Option<LinkName> = link.name.parse().ok();
        let of_name = |name: LinkName| {
            let driver = ethtool::EthtoolSocket::open().and_then(|socket| socket.driver_settings(&name));
            let rings = ethtool_netlink::Handle::open().and_then(|handle| handle.ring_settings(&name));
            let napi = node.sysfs.napi_settings(&name);
            (driver.unwrap_or_default(), rings.unwrap_or_default(), napi.unwrap_or_default())
        };
        let (driver, rings, napi) = name.map(of_name).unwrap_or_default();
        Ok(Self { link: link.settings.clone(), driver, rings, napi })
    }

    /// Removes the XDP programs from a link that is on the host. This must be first, because they block other changes.
    ///
    /// # Errors
    /// If a process still holds one on the link: it would see the packets of the next pod.
    pub(crate) fn remove_programs(&self, node: &Node, link: &Link) -> Result<(), Error> {
        match node.links()?.remove_programs(link.index, &link.settings, &self.link) {
            Err(rtnl::Error::Netlink(error)) if error.errno() == Some(Errno::EBUSY) => {
                Err(VfError::ProgramHeld(link.name.clone()).into())
            }
            removed => Ok(removed?),
        }
    }

    /// Restores these settings of a link that is on the host.
    ///
    /// # Errors
    /// If the kernel refuses those of the link itself. If the driver refuses its former settings, a warning is logged.
    pub(crate) fn restore(&self, node: &Node, link: &Link) -> Result<(), Error> {
        if let Ok(name) = link.name.parse() {
            let driver =
                ethtool::EthtoolSocket::open().and_then(|it| it.restore_driver_settings(&name, &self.driver));
            if let Err(error) = driver {
                warn!(%error, "failed to restore a setting of the VF's driver");
            }
            if self.rings != RingSettings::default()
                && let Err(error) = ethtool_netlink::Handle::open()
                    .and_then(|handle| handle.restore_ring_settings(&name, &self.rings))
            {
                warn!(%error, "failed to restore a setting of the VF's rings");
            }
            if let Err(error) = self.restore_napi(node, &name, link) {
                warn!(%error, "failed to restore the NAPI settings of the VF's queues");
            }
        }
        node.links()?.restore_settings(link.index, &link.settings, &self.link)?;
        if link.settings.is_noarp() && !self.link.is_noarp() {
            restore_dad(&link.name);
        }
        Ok(())
    }
}

impl VfLinkSettings {
    /// Restores the NAPI settings. A link that is down may have no NAPI instance, as with mlx5, and no file to restore then.
    fn restore_napi(&self, node: &Node, name: &LinkName, link: &Link) -> Result<(), Error> {
        let restore = || node.sysfs.restore_napi_settings(name, &self.napi);
        let Err(error) = restore() else { return Ok(()) };
        if link.up || !error.is_unsupported() {
            return Err(error.into());
        }
        let links = node.links()?;
        links.set_up(link.index, true)?;
        let restored = restore();
        links.set_up(link.index, false)?;
        Ok(restored?)
    }
}

/// Enables duplicate address detection as by default. The kernel disables it for a link that enters a network namespace with
/// `IFF_NOARP`, and does not enable it when the flag is cleared.
fn restore_dad(link: &str) {
    let restored = sysctl::read("net/ipv6/conf/default/accept_dad")
        .and_then(|default| sysctl::ensure(&format!("net/ipv6/conf/{link}/accept_dad"), &default));
    match restored {
        // The kernel has no IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => warn!(%error, link, "failed to enable duplicate address detection"),
        Ok(()) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use state::StateDir;
    use testkit::{Observe, TestNode};

    use super::*;

    #[test]
    fn settings_of_a_link_without_napi_instances_are_restored_as_well() {
        let test_node = TestNode::new();
        test_node.run_ip("link add v0 type veth peer name v1");
        test_node.run("ethtool", &["-K", "v0", "gro", "on"]);
        let node = Node::new(StateDir::at("/nonexistent"), Vec::new(), None);
        let link = || node.links().unwrap().link(&"v0".parse().unwrap()).unwrap();
        let file = |name: &str| format!("/sys/class/net/v0/{name}");
        let before = VfLinkSettings::of(&node, &link()).unwrap();
        test_node.run_ip("link set v0 up");
        for (name, value) in
            [("threaded", "1"), ("gro_flush_timeout", "20000"), ("napi_defer_hard_irqs", "9")]
        {
            fs::write(file(name), value).unwrap();
        }
        test_node.run_ip("link set v0 down");
        before.restore(&node, &link()).unwrap();
        assert_eq!(VfLinkSettings::of(&node, &link()).unwrap(), before);
        assert!(!link().up);
    }
}
