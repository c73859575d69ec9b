//! A VF.

use identifiers::{LinkName, MacAddr, PciAddress, VfIndex};
use rtnl::VfSettings;
use serde::Serialize;

use crate::VfUser;

/// A VF, as visible on the node.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Vf {
    /// Its number on its PF, from 0.
    pub index: VfIndex,
    /// Its PCI address.
    pub pci: PciAddress,
    /// The driver it is bound to.
    pub driver: Option<String>,
    /// The name of its link, if the link is in the node's namespace.
    pub link: Option<LinkName>,
    /// The link's MAC address.
    pub mac: Option<MacAddr>,
    /// The link's MTU.
    pub mtu: Option<u32>,
    /// The name of its RDMA device, if the device is in the node's namespace.
    pub rdma: Option<String>,
    /// The RDMA device's GUID, as `0c42:a103:0065:1234`; zero until the PF has given the VF an address.
    pub node_guid: Option<String>,
    /// The settings that the PF reports for it (`IFLA_VF_INFO`); not all drivers report them.
    #[serde(skip)]
    pub settings: Option<VfSettings>,
    /// The evidence of its users; empty if it is free.
    #[serde(rename = "usedBy")]
    pub users: Vec<VfUser>,
}

impl Vf {
    /// The MAC address that the PF has assigned; `None` if the VF may choose one.
    pub fn admin_mac(&self) -> Option<MacAddr> {
        self.settings.as_ref()?.mac.filter(|mac| !mac.is_zero())
    }

    /// Whether its RDMA device has no GUID yet: `rdma_cm` refuses such a device.
    pub fn lacks_guid(&self) -> bool {
        self.node_guid.as_deref().is_some_and(|guid| guid.bytes().all(|byte| matches!(byte, b'0' | b':')))
    }

    /// Whether there is no evidence of a user.
    pub fn is_free(&self) -> bool {
        self.users.is_empty()
    }
}
