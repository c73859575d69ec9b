//! The other settings of a VF's link that a pod can change, and that are restored on the host.
//!
//! A link keeps them when it moves to another network namespace. Three parts of the kernel hold them: the link itself, its
//! driver, and the NAPI instances of its queues.

use std::io;

use ethtool::DriverSettings;
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
    napi: NapiSettings,
}

impl VfLinkSettings {
    /// Returns the settings of a link that is on the host. Settings of the driver that cannot be read are left out.
    pub(crate) fn of(node: &Node, link: &Link) -> Result<Self, Error> {
        // An ioctl and a sysfs path need a valid name.
        let name: Option<LinkName> = link.name.parse().ok();
        let of_name = |name: LinkName| {
            let driver = ethtool::EthtoolSocket::open().and_then(|socket| socket.driver_settings(&name));
            (driver.unwrap_or_default(), node.sysfs.napi_settings(&name).unwrap_or_default())
        };
        let (driver, napi) = name.map(of_name).unwrap_or_default();
        Ok(Self { link: link.settings.clone(), driver, napi })
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
            if let Err(error) = node.sysfs.restore_napi_settings(&name, &self.napi) {
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
