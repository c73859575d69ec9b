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

#[cfg(test)]
mod tests {
    use identifiers::{VlanProto, VlanQos};
    use pod_routing::PodRouting;

    use super::*;

    fn tag(id: i64, qos: i64, proto: VlanProto) -> VfVlanTag {
        let (id, qos) = (VlanId::try_from(id).unwrap(), VlanQos::try_from(qos).unwrap());
        VfVlanTag { id, qos, proto }
    }

    fn conf() -> SriovConf {
        SriovConf {
            device: "0000:af:00.2".parse().unwrap(),
            vlan: Some(tag(7, 3, VlanProto::Dot1Ad)),
            mac: Some("c2:11:22:33:44:55".parse().unwrap()),
            mtu: None,
            rate: Some((100, 200)),
            spoofchk: Some(false),
            trust: Some(true),
            link_state: Some(1),
            isolation: None,
            routing: PodRouting::default(),
            device_info: None,
        }
    }

    #[test]
    fn each_configured_setting_is_restored_to_its_former_value() {
        let now = VfSettings {
            mac: Some("c2:00:00:00:00:01".parse().unwrap()),
            vlan: Some(tag(5, 1, VlanProto::Dot1Q)),
            spoofchk: Some(true),
            trust: Some(true),
            min_tx_rate: Some(10),
            max_tx_rate: Some(20),
            link_state: Some(2),
            ..VfSettings::default()
        };
        let conf = conf();
        let expected = [
            (VfSetting::Vlan(conf.vlan.unwrap()), VfSetting::Vlan(now.vlan.unwrap())),
            // SavedAdminMac restores the former one.
            (VfSetting::Mac(conf.mac.unwrap()), VfSetting::Mac(MacAddr::ZERO)),
            (VfSetting::Rate(100, 200), VfSetting::Rate(10, 20)),
            (VfSetting::SpoofCheck(false), VfSetting::SpoofCheck(true)),
            (VfSetting::Trust(true), VfSetting::Trust(true)),
            (VfSetting::LinkState(1), VfSetting::LinkState(2)),
        ];
        assert_eq!(wanted_settings(&now, &conf), expected);
        let none = SriovConf {
            vlan: None,
            mac: None,
            rate: None,
            spoofchk: None,
            trust: None,
            link_state: None,
            ..conf
        };
        assert_eq!(wanted_settings(&now, &none), []);
    }

    #[test]
    fn a_setting_that_the_driver_does_not_report_is_restored_to_its_default() {
        let former: Vec<_> =
            wanted_settings(&VfSettings::default(), &conf()).into_iter().map(|(_, former)| former).collect();
        let expected = [
            VfSetting::Vlan(VfVlanTag { id: VlanId::NONE, ..tag(7, 3, VlanProto::Dot1Ad) }),
            VfSetting::Mac(MacAddr::ZERO),
            VfSetting::Rate(0, 0),
            VfSetting::SpoofCheck(false),
            VfSetting::Trust(false),
            VfSetting::LinkState(0),
        ];
        assert_eq!(former, expected);
    }
}
