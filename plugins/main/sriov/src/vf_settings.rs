//! The settings of a VF that a configuration requests, with their former values.

use identifiers::{MacAddr, VlanId};
use rtnl::{VfSetting, VfSettings, VfVlanTag};

use crate::conf::SriovConf;

/// Returns the configured settings in the order in which they are set, each with the value that DEL restores.
pub(crate) fn wanted_settings(now: &VfSettings, conf: &SriovConf) -> Vec<(VfSetting, VfSetting)> {
    let mut wanted = Vec::new();
    wanted.extend(conf.vlan.map(|tag| (VfSetting::Vlan(tag), former_vlan(now, tag))));
    wanted.extend(conf.mac.map(|mac| (VfSetting::Mac(mac), VfSetting::Mac(MacAddr::ZERO))));
    wanted.extend(conf.rate.map(|(min, max)| (VfSetting::Rate(min, max), former_rate(now))));
    let former = now.spoofchk.unwrap_or_default();
    wanted.extend(conf.spoofchk.map(|on| (VfSetting::SpoofCheck(on), VfSetting::SpoofCheck(former))));
    let former = now.trust.unwrap_or_default();
    wanted.extend(conf.trust.map(|on| (VfSetting::Trust(on), VfSetting::Trust(former))));
    let former = now.link_state.unwrap_or_default();
    wanted.extend(conf.link_state.map(|s| (VfSetting::LinkState(s), VfSetting::LinkState(former))));
    wanted
}

/// Returns the former tag; without one, VLAN ID 0 with the protocol of the new tag.
fn former_vlan(now: &VfSettings, wanted: VfVlanTag) -> VfSetting {
    VfSetting::Vlan(now.vlan.unwrap_or(VfVlanTag { id: VlanId::NONE, ..wanted }))
}

fn former_rate(now: &VfSettings) -> VfSetting {
    VfSetting::Rate(now.min_tx_rate.unwrap_or_default(), now.max_tx_rate.unwrap_or_default())
}
