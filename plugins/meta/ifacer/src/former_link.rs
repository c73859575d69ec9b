//! The former state of a bond's slave.

use identifiers::{LinkName, MacAddr};
use plugin_runtime::{Error, Node, sysctl};
use rtnl::Link;
use serde::{Deserialize, Serialize};
use tracing::warn;

/// The state of a link before it became a slave of a bond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FormerLink {
    pub(crate) name: LinkName,
    pub(crate) index: u32,
    up: bool,
    /// In bytes.
    pub(crate) mtu: u32,
    mac: Option<MacAddr>,
    /// The sysctl of its IPv6 MTU; `None` without IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ipv6_mtu: Option<String>,
}

impl FormerLink {
    /// Returns the current state of a link.
    pub(crate) fn of(name: &LinkName, link: &Link) -> Self {
        let ipv6_mtu = sysctl::read(&ipv6_mtu(name)).ok();
        Self { name: name.clone(), index: link.index, up: link.up, mtu: link.mtu, mac: link.mac, ipv6_mtu }
    }

    /// Restores the state, unless the link is gone, was renamed, or belongs to another bond. The kernel restores MAC address
    /// and MTU itself when it deletes a bond, and leaves the slaves down.
    ///
    /// # Errors
    /// If the kernel refuses a change.
    pub(crate) fn restore(&self, node: &Node) -> Result<(), Error> {
        let links = node.links()?;
        let Some(link) = links.find_link_by_index(self.index)? else { return Ok(()) };
        if link.name != self.name.as_str() || link.controller.is_some() {
            return Ok(());
        }
        if let Some(mac) = self.mac.filter(|mac| link.mac != Some(*mac)) {
            links.set_mac(self.index, mac)?;
        }
        if link.mtu != self.mtu {
            links.set_mtu(self.index, self.mtu)?;
        }
        if link.up != self.up {
            links.set_up(self.index, self.up)?;
        }
        self.restore_ipv6_mtu();
        Ok(())
    }

    /// Restores the IPv6 MTU, which the kernel does not always change with the link's.
    fn restore_ipv6_mtu(&self) {
        let Some(former) = &self.ipv6_mtu else { return };
        if let Err(error) = sysctl::ensure(&ipv6_mtu(&self.name), former) {
            warn!(%error, link = %self.name, "failed to restore the IPv6 MTU {former}");
        }
    }
}

fn ipv6_mtu(link: &LinkName) -> String {
    format!("net/ipv6/conf/{link}/mtu")
}
