//! What else a pod may set of its VF's link, as it was at home and is to be again.
//!
//! A link takes all of it along from one network namespace to the next. Three parts of the kernel keep it: the link itself, its
//! driver, and the polling of its queues.

use ethtool::DriverSettings;
use identifiers::LinkName;
use nix::errno::Errno;
use plugin_runtime::{Error, Node};
use rtnl::{Link, LinkSettings as KernelSettings};
use serde::{Deserialize, Serialize};
use sysfs::NapiSettings;
use tracing::warn;

use crate::error::SriovError;

/// Settings of a VF's link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VfLinkSettings {
    link: KernelSettings,
    driver: DriverSettings,
    napi: NapiSettings,
}

impl VfLinkSettings {
    /// Those of a link that is at home.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn of(node: &Node, link: &Link) -> Result<Self, Error> {
        // One that cannot be written is none that an ioctl or a path can have.
        let name: Option<LinkName> = link.name.parse().ok();
        let of_name = |name: LinkName| {
            let driver = ethtool::EthtoolSocket::open().and_then(|socket| socket.driver_settings(&name));
            (driver.unwrap_or_default(), node.sysfs.napi_settings(&name).unwrap_or_default())
        };
        let (driver, napi) = name.map(of_name).unwrap_or_default();
        Ok(Self { link: link.settings.clone(), driver, napi })
    }

    /// Takes the programs off a link that is at home: first of all, for they forbid much of what comes then.
    ///
    /// # Errors
    /// If somebody still holds one there: the next pod's packets would go through it.
    pub(crate) fn remove_programs(&self, node: &Node, link: &Link) -> Result<(), Error> {
        match node.links()?.remove_programs(link.index, &link.settings, &self.link) {
            Err(rtnl::Error::Netlink(error)) if error.errno() == Some(Errno::EBUSY) => {
                Err(SriovError::ProgramHeld(link.name.clone()).into())
            }
            removed => Ok(removed?),
        }
    }

    /// Gives a link that is at home these settings again.
    ///
    /// # Errors
    /// If the kernel refuses those of the link itself. A driver that refuses what it had keeps no pod from going.
    pub(crate) fn restore(&self, node: &Node, link: &Link) -> Result<(), Error> {
        if let Ok(name) = link.name.parse() {
            let driver =
                ethtool::EthtoolSocket::open().and_then(|it| it.restore_driver_settings(&name, &self.driver));
            if let Err(error) = driver {
                warn!(%error, "a setting of the VF's driver is as the pod left it");
            }
            if let Err(error) = node.sysfs.restore_napi_settings(&name, &self.napi) {
                warn!(%error, "the polling of the VF's queues is as the pod left it");
            }
        }
        Ok(node.links()?.restore_settings(link.index, &link.settings, &self.link)?)
    }
}
