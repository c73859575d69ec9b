//! A VF.

use identifiers::{LinkName, MacAddr, PciAddress, VfIndex};
use rtnl::VfSettings;
use serde::Serialize;

use crate::VfUser;

/// A VF, as the node sees it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Vf {
    /// Its number on its PF, from 0.
    pub index: VfIndex,
    /// Its address.
    pub pci: PciAddress,
    /// The driver it is bound to.
    pub driver: Option<String>,
    /// Its link, if that is in the node's namespace.
    pub link: Option<LinkName>,
    /// The link's MAC address.
    pub mac: Option<MacAddr>,
    /// The link's MTU.
    pub mtu: Option<u32>,
    /// Its RDMA device, if that is in the node's namespace.
    pub rdma: Option<String>,
    /// The RDMA device's GUID, as `0c42:a103:0065:1234`; zero until the PF has given the VF an address.
    pub node_guid: Option<String>,
    /// What the PF has set for it; a driver need not show it.
    #[serde(skip)]
    pub settings: Option<VfSettings>,
    /// Who uses it, as far as that shows. Empty: nobody.
    #[serde(rename = "usedBy")]
    pub users: Vec<VfUser>,
}

impl Vf {
    /// The MAC address that the PF has set; none if the VF may choose.
    pub fn admin_mac(&self) -> Option<MacAddr> {
        self.settings.as_ref()?.mac.filter(|mac| !mac.is_zero())
    }

    /// Whether its RDMA device has no GUID yet: `rdma_cm` refuses such a device.
    pub fn lacks_guid(&self) -> bool {
        self.node_guid.as_deref().is_some_and(|guid| guid.bytes().all(|byte| matches!(byte, b'0' | b':')))
    }

    /// Whether anybody uses it.
    pub fn is_free(&self) -> bool {
        self.users.is_empty()
    }
}
