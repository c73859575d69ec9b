//! A VF's settings, which are read and changed through its PF's link.

use std::fmt;

use identifiers::{LinkName, MacAddr, VfIndex, VlanId, VlanProto, VlanQos};
use netlink_packet_route::link::{
    LinkAttribute, LinkExtentMask, LinkMessage, LinkVfInfo, VfInfo, VfInfoGuid, VfInfoLinkState, VfInfoMac,
    VfInfoRate, VfInfoSpoofCheck, VfInfoTrust, VfLinkState, VfVlan, VfVlanInfo, VlanProtocol,
};
use rtnetlink::{LinkMessageBuilder, LinkUnspec};
use serde::{Deserialize, Serialize};

use crate::{
    Error, Handle, Link,
    handle::LinkIndexText,
    link,
    message::{GETLINK, Message, NEWLINK},
};

/// A VF's VLAN tag. ID 0 means no tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VfVlanTag {
    /// The VLAN ID, 0 to 4094.
    pub id: VlanId,
    /// The priority (802.1p), 0 to 7.
    pub qos: VlanQos,
    /// The protocol: 802.1Q or 802.1ad.
    pub proto: VlanProto,
}

/// A VF's settings as reported by its PF (`IFLA_VF_INFO`). A setting that the driver does not report is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VfSettings {
    /// The administrative MAC; zero means that the VF may choose its own.
    pub mac: Option<MacAddr>,
    /// The VLAN tag.
    pub vlan: Option<VfVlanTag>,
    /// Whether frames with another source MAC are dropped.
    pub spoofchk: Option<bool>,
    /// Whether the VF may change its MAC, enable promiscuous mode, and the like.
    pub trust: Option<bool>,
    /// The guaranteed rate in Mbit/s; 0 means none.
    pub min_tx_rate: Option<u32>,
    /// The rate limit in Mbit/s; 0 means none.
    pub max_tx_rate: Option<u32>,
    /// `IFLA_VF_LINK_STATE`: 0 auto (follows the port), 1 enable, 2 disable.
    pub link_state: Option<u32>,
    /// The node GUID of the VF's RDMA device; InfiniBand only.
    pub node_guid: Option<u64>,
    /// The port GUID of the VF's RDMA device; InfiniBand only.
    pub port_guid: Option<u64>,
}

/// A new value of one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VfSetting {
    /// `IFLA_VF_VLAN_LIST`.
    Vlan(VfVlanTag),
    /// `IFLA_VF_MAC`, the administrative MAC.
    Mac(MacAddr),
    /// `IFLA_VF_RATE`: the guaranteed rate and the limit, in Mbit/s.
    Rate(u32, u32),
    /// `IFLA_VF_SPOOFCHK`.
    SpoofCheck(bool),
    /// `IFLA_VF_TRUST`.
    Trust(bool),
    /// `IFLA_VF_LINK_STATE`: 0 auto (follows the port), 1 enable, 2 disable.
    LinkState(u32),
    /// `IFLA_VF_IB_NODE_GUID`.
    NodeGuid(u64),
    /// `IFLA_VF_IB_PORT_GUID`.
    PortGuid(u64),
}

impl VfSettings {
    fn has_no_vlan(&self) -> bool {
        self.vlan.is_none_or(|tag| tag.id == VlanId::NONE)
    }
}

impl VfSetting {
    /// Returns the operation for error messages.
    fn operation(self) -> &'static str {
        match self {
            Self::Vlan(_) => "set the VLAN of",
            Self::Mac(_) => "set the administrative MAC of",
            Self::Rate(..) => "set the rate of",
            Self::SpoofCheck(_) => "set the spoof check of",
            Self::Trust(_) => "set the trust of",
            Self::LinkState(_) => "set the link state of",
            Self::NodeGuid(_) => "set the node GUID of",
            Self::PortGuid(_) => "set the port GUID of",
        }
    }

    /// Whether `settings` already have this value.
    pub fn is_in_place(self, settings: &VfSettings) -> bool {
        match self {
            Self::Vlan(tag) => {
                settings.vlan == Some(tag) || (tag.id == VlanId::NONE && settings.has_no_vlan())
            }
            Self::Mac(mac) => settings.mac == Some(mac),
            Self::Rate(min, max) => settings.min_tx_rate == Some(min) && settings.max_tx_rate == Some(max),
            Self::SpoofCheck(on) => settings.spoofchk == Some(on),
            Self::Trust(on) => settings.trust == Some(on),
            Self::LinkState(state) => settings.link_state == Some(state),
            Self::NodeGuid(guid) => settings.node_guid == Some(guid),
            Self::PortGuid(guid) => settings.port_guid == Some(guid),
        }
    }

    pub(crate) fn attribute(self, vf: VfIndex) -> VfInfo {
        match self {
            Self::Vlan(VfVlanTag { id, qos, proto }) => {
                let protocol = VlanProtocol::from(proto.ether_type());
                VfInfo::VlanList(vec![VfVlan::Info(VfVlanInfo::new(
                    vf.0,
                    id.get().into(),
                    qos.get().into(),
                    protocol,
                ))])
            }
            Self::Mac(mac) => VfInfo::Mac(VfInfoMac::new(vf.0, &mac.bytes())),
            Self::Rate(min, max) => VfInfo::Rate(VfInfoRate::new(vf.0, min, max)),
            Self::SpoofCheck(on) => VfInfo::SpoofCheck(VfInfoSpoofCheck::new(vf.0, on)),
            Self::Trust(on) => VfInfo::Trust(VfInfoTrust::new(vf.0, on)),
            Self::LinkState(state) => VfInfo::LinkState(VfInfoLinkState::new(vf.0, VfLinkState::from(state))),
            Self::NodeGuid(guid) => VfInfo::IbNodeGuid(VfInfoGuid::new(vf.0, guid)),
            Self::PortGuid(guid) => VfInfo::IbPortGuid(VfInfoGuid::new(vf.0, guid)),
        }
    }
}

impl Handle {
    /// Returns the settings of a VF. `pf` is the index of the PF's link.
    ///
    /// # Kernel
    /// `RTM_GETLINK` with `RTEXT_FILTER_VF`. The kernel holds RTNL while the driver queries its firmware for *every* VF:
    /// do not call this in a loop.
    ///
    /// # Errors
    /// Not found if the PF has no such VF; any other of [`Error`].
    pub fn vf_settings(&self, pf: u32, vf: VfIndex) -> Result<VfSettings, Error> {
        let vfs = self.vfs(pf)?;
        vfs.into_iter().find(|(number, _)| *number == vf).map(|(_, settings)| settings).ok_or_else(|| {
            let object = format!("VF {vf} of the PF with index {pf}");
            netlink::Error::not_found("find", object).into()
        })
    }

    /// Returns the settings of all VFs that the PF's driver reports. `pf` is the index of the PF's link.
    ///
    /// # Errors
    /// Any of [`Error`].
    ///
    /// # Kernel
    /// As of [`Handle::vf_settings`].
    pub fn vfs(&self, pf: u32) -> Result<Vec<(VfIndex, VfSettings)>, Error> {
        Ok(all(&self.get_link_with_vfs(&LinkIndexText(pf), LinkUnspec::new_with_index(pf))?))
    }

    /// Returns the link of a PF and the settings of its VFs, as [`Handle::vfs`], by one request.
    ///
    /// # Errors
    /// Not found; or any other of [`Error`].
    pub fn pf(&self, name: &LinkName) -> Result<(Link, Vec<(VfIndex, VfSettings)>), Error> {
        let message =
            self.get_link_with_vfs(&format!("link {name}"), LinkUnspec::new_with_name(name.as_str()))?;
        Ok((link::read(&message), all(&message)))
    }

    fn get_link_with_vfs(
        &self,
        object: &dyn fmt::Display,
        link: LinkMessageBuilder<LinkUnspec>,
    ) -> Result<LinkMessage, Error> {
        let mask = vec![LinkExtentMask::Vf, LinkExtentMask::SkipStats];
        let message = link.append_extra_attribute(LinkAttribute::ExtMask(mask)).build();
        // About 400 bytes for each VF; a second request would query the firmware a second time.
        self.expect_long_answer(256 * 1024);
        match self.get("read the VFs of", object, Message::Link(GETLINK, message))? {
            Message::Link(_, message) => Ok(message),
            _ => Err(netlink::Error::not_found("read the VFs of", object.to_string()).into()),
        }
    }

    /// Changes one setting of a VF.
    ///
    /// # Errors
    /// Refused with `EOPNOTSUPP` if the driver cannot; any other of [`Error`].
    pub fn set_vf(&self, pf: u32, vf: VfIndex, change: VfSetting) -> Result<(), Error> {
        self.change_vf(change.operation(), pf, vf, &[change])
    }

    /// Changes several settings of a VF by one message. The kernel sets them one after another and stops at the first
    /// that the driver refuses. Its error does not identify that setting, and the ones before it stay changed.
    ///
    /// # Errors
    /// As of [`Handle::set_vf`].
    pub fn set_vf_in_one_message(&self, pf: u32, vf: VfIndex, changes: &[VfSetting]) -> Result<(), Error> {
        self.change_vf("configure", pf, vf, changes)
    }

    fn change_vf(
        &self,
        operation: &'static str,
        pf: u32,
        vf: VfIndex,
        changes: &[VfSetting],
    ) -> Result<(), Error> {
        let infos = changes.iter().map(|change| change.attribute(vf)).collect();
        let list = LinkAttribute::VfInfoList(vec![LinkVfInfo(infos)]);
        let message = LinkUnspec::new_with_index(pf).append_extra_attribute(list).build();
        let object = format!("VF {vf} of the PF with index {pf}");
        self.execute(operation, &object, Message::Link(NEWLINK, message), 0)
    }
}

/// Returns the VFs in the message of a PF's link.
pub(crate) fn all(message: &LinkMessage) -> Vec<(VfIndex, VfSettings)> {
    let vfs = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::VfInfoList(vfs) => Some(vfs.as_slice()),
        _ => None,
    });
    let vfs = vfs.unwrap_or_default().iter();
    vfs.filter_map(|vf| Some((number(vf)?, read(vf)))).collect()
}

fn number(LinkVfInfo(infos): &LinkVfInfo) -> Option<VfIndex> {
    infos.iter().find_map(|info| match info {
        VfInfo::Mac(mac) => Some(VfIndex(mac.vf_id)),
        _ => None,
    })
}

fn read(LinkVfInfo(infos): &LinkVfInfo) -> VfSettings {
    let mut settings = VfSettings::default();
    for info in infos {
        match info {
            // The kernel's field has 32 bytes, for longer addresses such as InfiniBand's.
            VfInfo::Mac(mac) => settings.mac = mac.mac.get(..6).and_then(MacAddr::from_bytes),
            VfInfo::Vlan(vlan) if settings.vlan.is_none() => {
                settings.vlan = tag(vlan.vlan_id, vlan.qos, VlanProto::Dot1Q);
            }
            VfInfo::VlanList(list) => settings.vlan = list.first().and_then(listed).or(settings.vlan),
            VfInfo::SpoofCheck(check) => settings.spoofchk = Some(check.enabled),
            VfInfo::Trust(trust) => settings.trust = Some(trust.enabled),
            VfInfo::Rate(rate) => {
                settings.min_tx_rate = Some(rate.min_tx_rate);
                settings.max_tx_rate = Some(rate.max_tx_rate);
            }
            VfInfo::LinkState(state) => settings.link_state = Some(state.state.into()),
            VfInfo::IbNodeGuid(guid) => settings.node_guid = Some(guid.guid),
            VfInfo::IbPortGuid(guid) => settings.port_guid = Some(guid.guid),
            _ => {}
        }
    }
    settings
}

fn listed(vlan: &VfVlan) -> Option<VfVlanTag> {
    let VfVlan::Info(info) = vlan else { return None };
    let proto = match u16::from(info.protocol) {
        0x88a8 => VlanProto::Dot1Ad,
        _ => VlanProto::Dot1Q,
    };
    tag(info.vlan_id, info.qos, proto)
}

fn tag(id: u32, qos: u32, proto: VlanProto) -> Option<VfVlanTag> {
    let id = i64::from(id).try_into().ok()?;
    Some(VfVlanTag { id, qos: i64::from(qos).try_into().ok()?, proto })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_in_place_only_if_all_of_it_is() {
        let tag = |id: i64, qos: i64| VfVlanTag {
            id: id.try_into().unwrap(),
            qos: qos.try_into().unwrap(),
            proto: VlanProto::Dot1Q,
        };
        let now = VfSettings {
            mac: Some("c2:11:22:33:44:55".parse().unwrap()),
            vlan: Some(tag(5, 1)),
            spoofchk: Some(true),
            trust: Some(false),
            min_tx_rate: Some(10),
            max_tx_rate: Some(20),
            link_state: Some(2),
            node_guid: Some(3),
            port_guid: Some(4),
        };
        let untagged = VfSettings { vlan: Some(tag(0, 0)), ..VfSettings::default() };
        for (change, settings, expected) in [
            (VfSetting::Vlan(tag(5, 1)), &now, true),
            (VfSetting::Vlan(tag(5, 0)), &now, false),
            (VfSetting::Vlan(tag(0, 0)), &now, false),
            (VfSetting::Vlan(tag(0, 0)), &untagged, true),
            (VfSetting::Vlan(VfVlanTag { proto: VlanProto::Dot1Ad, ..tag(0, 0) }), &untagged, true),
            (VfSetting::Vlan(tag(0, 0)), &VfSettings::default(), true),
            (VfSetting::Vlan(tag(5, 1)), &VfSettings::default(), false),
            (VfSetting::Mac(MacAddr::ZERO), &now, false),
            (VfSetting::Mac(MacAddr::ZERO), &VfSettings::default(), false),
            (VfSetting::Rate(10, 20), &now, true),
            (VfSetting::Rate(0, 20), &now, false),
            (VfSetting::Rate(10, 0), &now, false),
            (VfSetting::Rate(0, 0), &VfSettings::default(), false),
            (VfSetting::SpoofCheck(false), &now, false),
            (VfSetting::Trust(true), &now, false),
            (VfSetting::LinkState(0), &now, false),
            (VfSetting::LinkState(2), &now, true),
            (VfSetting::NodeGuid(3), &now, true),
            (VfSetting::NodeGuid(4), &now, false),
            (VfSetting::PortGuid(4), &now, true),
            (VfSetting::PortGuid(3), &now, false),
        ] {
            assert_eq!(change.is_in_place(settings), expected, "{change:?} in {settings:?}");
        }
    }
}
