//! VFs that the Go plugin (sriov-cni) moved to pods before this one replaced it.
//!
//! It saved its configuration and the VF's former state in `sriov/<container>-<ifname>`. [`GoSriovState`] converts that
//! to this plugin's own changes, which can be reverted.

use cni::{ConfObject, DelRequest, Error as CniError};
use go_plugins::{GoStateFile, GoVfAllocation};
use identifiers::{Attachment, LinkName, MacAddr, PciAddress, VlanId, VlanProto, VlanQos};
use netns::NetNs;
use plugin_runtime::{Error, Node, attachment};
use rtnl::{VfSetting, VfVlanTag};
use sysfs::Function;
use tracing::info;
use vf::{Change, HostLinkState, LinkMove, SavedAdminMac, VfConfigured, is_claimed_by_other};

use crate::{conf::NAME, error::SriovError};

/// Reverts an attachment of the Go plugin, if the Go plugin has a file of it.
///
/// # Errors
/// The changes that could not be reverted; the Go plugin's files are then kept for the next DEL.
pub(crate) fn revert_go_attachment(request: &DelRequest<'_>, node: &Node) -> Result<(), Error> {
    let Attachment { container_id, ifname } = &request.attachment;
    let Some(file) =
        node.go_state.find(NAME, &format!("{container_id}-{ifname}"), node.go_file_lock().at())?
    else {
        return Ok(());
    };
    let Some(noted) = GoSriovState::read(&file) else { return Ok(()) };
    let allocation = node.go_state.allocation(noted.vf);
    let has_other_owner = || is_claimed_by_other(node, &Function::Pci(noted.vf), &request.attachment);
    if file.is_outdated() || (has_other_owner()? && allocation.is_none()) {
        info!(vf = %noted.vf, "the VF belongs to another pod now: not changing it");
        return Ok(file.remove()?);
    }
    let path = request.netns.as_deref().or_else(|| allocation.as_ref().map(GoVfAllocation::netns));
    // Held open only for this call: the namespace may be about to end.
    let changes =
        noted.changes(node, &request.attachment, path.and_then(go_plugins::open_if_alive).as_ref())?;
    attachment::revert_all(node, &changes)?;
    if has_other_owner()? {
        // An ADD has claimed the VF and waits for this file, to revert the rest.
        return Ok(());
    }
    info!(vf = %noted.vf, "reverted an attachment of the Go plugin");
    allocation.map_or(Ok(()), GoVfAllocation::remove)?;
    Ok(file.remove()?)
}

/// Checks that no pod of the Go plugin has a VF. The changes of a pod that is gone are reverted, on behalf of `owner`,
/// which has claimed the VF.
///
/// # Errors
/// If such a pod is alive, or its changes cannot be reverted.
pub(crate) fn release_go_allocation(node: &Node, vf: PciAddress, owner: &Attachment) -> Result<(), Error> {
    let Some(allocation) = node.go_state.allocation(vf) else { return Ok(()) };
    if allocation.is_alive() {
        return Err(SriovError::GoPluginHasIt { vf, netns: allocation.netns().to_owned() }.into());
    }
    let file = node.go_state.newest_about(NAME, &vf.to_string(), node.go_file_lock().at())?;
    if let Some(file) = file
        && let Some(noted) = GoSriovState::read(&file)
    {
        info!(%vf, "reverting the changes to a VF whose pod is gone without a DEL");
        attachment::revert_all(node, &noted.changes(node, owner, None)?)?;
        file.remove()?;
    }
    Ok(allocation.remove()?)
}

/// The state that the Go plugin saved of an attachment.
#[derive(Debug, PartialEq, Eq)]
pub struct GoSriovState {
    vf: PciAddress,
    /// The VF's former MAC address on the PF.
    mac: Option<MacAddr>,
    /// The former values of the settings that the configuration changed.
    restore: Vec<VfSetting>,
    /// The link on the host; `None` for a VF in user space.
    host_link: Option<HostLinkState>,
}

impl GoSriovState {
    /// Reads a file; `None` if it is malformed.
    fn read(file: &GoStateFile) -> Option<Self> {
        Self::of(&file.fields()).inspect_err(|why| file.warn_and_keep(why)).ok()
    }

    /// Reads the content of a file of the Go plugin.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn of(conf: &ConfObject<'_>) -> Result<Self, CniError> {
        let missing = |key: &str| conf.invalid(key, "a value", "none");
        let vf = conf.text("deviceID")?.ok_or_else(|| missing("deviceID"))?;
        let former = conf.object("OrigVfState")?.ok_or_else(|| missing("OrigVfState"))?;
        Ok(Self {
            vf: vf.parse().map_err(|e| conf.invalid("deviceID", "a PCI address", e))?,
            mac: mac(&former, "AdminMAC")?,
            restore: restore(conf, &former)?,
            host_link: host_link_state(&former)?,
        })
    }

    /// Returns the changes of the Go plugin, in the order in which ADD makes them.
    fn changes(&self, node: &Node, owner: &Attachment, pod: Option<&NetNs>) -> Result<Vec<Change>, Error> {
        // If the VF is gone, so are its settings.
        if !node.sysfs.has(&Function::Pci(self.vf))? {
            return Ok(Vec::new());
        }
        let Some(pf) = node.sysfs.pf_of(self.vf)? else { return Ok(Vec::new()) };
        let index = node.sysfs.vf_index(self.vf)?;
        let mac = self.mac.map(|mac| SavedAdminMac::from_go_state(owner, self.vf, pf, index, mac));
        let link_move = self
            .host_link
            .clone()
            .map(|link| LinkMove::from_go_state(owner, Function::Pci(self.vf), pod, link));
        let settings = VfConfigured::from_go_state(owner, self.vf, pf, index, self.restore.clone());
        Ok(mac
            .map(Change::Mac)
            .into_iter()
            .chain(link_move.map(Change::Move))
            .chain([Change::Configured(settings)])
            .collect())
    }
}

/// Returns the former values of the settings that were configured. An operator may have changed the others since.
fn restore(conf: &ConfObject<'_>, former: &ConfObject<'_>) -> Result<Vec<VfSetting>, CniError> {
    let mut restore = Vec::new();
    if conf.integer("vlan")?.is_some() {
        restore.push(VfSetting::Vlan(vlan(former)?));
    }
    if conf.text("MAC")?.is_some() {
        restore.push(VfSetting::Mac(MacAddr::ZERO));
    }
    if conf.integer("min_tx_rate")?.is_some() || conf.integer("max_tx_rate")?.is_some() {
        restore.push(VfSetting::Rate(number(former, "MinTxRate")?, number(former, "MaxTxRate")?));
    }
    if conf.text("spoofchk")?.is_some() {
        restore.push(VfSetting::SpoofCheck(former.flag("SpoofChk")?.unwrap_or_default()));
    }
    if conf.text("trust")?.is_some() {
        restore.push(VfSetting::Trust(former.flag("Trust")?.unwrap_or_default()));
    }
    if conf.text("link_state")?.is_some() {
        restore.push(VfSetting::LinkState(number(former, "LinkState")?));
    }
    Ok(restore)
}

fn vlan(former: &ConfObject<'_>) -> Result<VfVlanTag, CniError> {
    let number = |key| former.integer(key).map(Option::unwrap_or_default);
    let id = VlanId::try_from(number("Vlan")?);
    let qos = VlanQos::try_from(number("VlanQoS")?);
    // An EtherType, in whichever byte order.
    let proto = match number("VlanProto")? {
        0x88a8 | 0xa888 => VlanProto::Dot1Ad,
        _ => VlanProto::Dot1Q,
    };
    let invalid = |key| move |e: identifiers::InvalidVlan| former.invalid(key, "a VLAN tag", e);
    Ok(VfVlanTag { id: id.map_err(invalid("Vlan"))?, qos: qos.map_err(invalid("VlanQoS"))?, proto })
}

fn host_link_state(former: &ConfObject<'_>) -> Result<Option<HostLinkState>, CniError> {
    let Some(name) = former.text("HostIFName")? else { return Ok(None) };
    let name: LinkName = name.parse().map_err(|e| former.invalid("HostIFName", "a link name", e))?;
    // Versions that did not look at the MTU noted 0.
    let mtu = Some(number(former, "MTU")?).filter(|mtu| *mtu != 0);
    Ok(Some(HostLinkState::from_go_state(name, mac(former, "EffectiveMAC")?, mtu)))
}

fn mac(former: &ConfObject<'_>, key: &str) -> Result<Option<MacAddr>, CniError> {
    let text = former.text(key)?;
    text.map(|text| text.parse().map_err(|e| former.invalid(key, "a MAC address", e))).transpose()
}

fn number(former: &ConfObject<'_>, key: &str) -> Result<u32, CniError> {
    let value = former.integer(key)?.unwrap_or_default();
    u32::try_from(value).map_err(|_| former.invalid(key, "a number of at least 0", value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn noted(settings: &Value) -> Result<GoSriovState, CniError> {
        let mut file = json!({
            "cniVersion": "1.0.0", "name": "rail0", "type": "sriov", "ipam": {"type": "host-local"},
            "OrigVfState": {
                "HostIFName": "ens6f0v1", "SpoofChk": true, "Trust": false, "AdminMAC": "00:00:00:00:00:00",
                "EffectiveMAC": "c2:11:22:33:44:55", "Vlan": 0, "VlanQoS": 0, "VlanProto": 33024,
                "MinTxRate": 0, "MaxTxRate": 0, "LinkState": 0, "MTU": 1500
            },
            "Master": "ens6f0", "MAC": "", "MTU": null, "vlan": null, "vlanQoS": null, "vlanProto": null,
            "deviceID": "0000:af:00.3", "VFID": 1, "min_tx_rate": null, "max_tx_rate": null, "runtimeConfig": {}
        });
        file.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        GoSriovState::of(&ConfObject::new(file.as_object().unwrap(), ""))
    }

    fn tag(id: i64, qos: i64, proto: VlanProto) -> VfSetting {
        let (id, qos) = (VlanId::try_from(id).unwrap(), VlanQos::try_from(qos).unwrap());
        VfSetting::Vlan(VfVlanTag { id, qos, proto })
    }

    #[test]
    fn case_100_only_what_was_configured_is_restored() {
        let plain = noted(&json!({})).unwrap();
        assert_eq!(plain.restore, []);
        assert_eq!(plain.mac, Some(MacAddr::ZERO));
        let mac = "c2:11:22:33:44:55".parse().ok();
        assert_eq!(
            plain.host_link,
            Some(HostLinkState::from_go_state("ens6f0v1".parse().unwrap(), mac, Some(1500)))
        );

        let all = noted(&json!({
            "vlan": 5, "MAC": "c2:00:00:00:00:01", "max_tx_rate": 100, "spoofchk": "off", "trust": "on",
            "link_state": "enable"
        }));
        let restored = [
            tag(0, 0, VlanProto::Dot1Q),
            VfSetting::Mac(MacAddr::ZERO),
            VfSetting::Rate(0, 0),
            VfSetting::SpoofCheck(true),
            VfSetting::Trust(false),
            VfSetting::LinkState(0),
        ];
        assert_eq!(all.unwrap().restore, restored);

        let changed = noted(&json!({
            "min_tx_rate": 0, "spoofchk": "on", "trust": "off", "link_state": "auto",
            "OrigVfState": {"SpoofChk": false, "Trust": true, "MinTxRate": 10, "MaxTxRate": 20, "LinkState": 2}
        }));
        let restored = [
            VfSetting::Rate(10, 20),
            VfSetting::SpoofCheck(false),
            VfSetting::Trust(true),
            VfSetting::LinkState(2),
        ];
        assert_eq!(changed.unwrap().restore, restored);
    }

    #[test]
    fn an_mtu_of_zero_was_not_noted() {
        let former = json!({"HostIFName": "ens6f0v1", "MTU": 0});
        let expected = HostLinkState::from_go_state("ens6f0v1".parse().unwrap(), None, None);
        assert_eq!(noted(&json!({"OrigVfState": former})).unwrap().host_link, Some(expected));
    }

    #[test]
    fn a_former_vlan_is_read_with_its_ether_type() {
        // 802.1ad in either byte order, and 802.1Q.
        for (ether_type, proto) in
            [(0x88a8, VlanProto::Dot1Ad), (0xa888, VlanProto::Dot1Ad), (0x8100, VlanProto::Dot1Q)]
        {
            let former = json!({"Vlan": 7, "VlanQoS": 3, "VlanProto": ether_type});
            let noted = noted(&json!({"vlan": 0, "OrigVfState": former})).unwrap();
            assert_eq!(noted.restore, [tag(7, 3, proto)]);
            assert_eq!((noted.mac, noted.host_link), (None, None), "a VF in user space has no link");
        }
    }

    #[test]
    fn a_malformed_file_is_refused() {
        for malformed in [
            json!({"deviceID": "../../etc"}),
            json!({"deviceID": null}),
            json!({"OrigVfState": null}),
            json!({"OrigVfState": {"HostIFName": "a/b"}}),
            json!({"OrigVfState": {"AdminMAC": "zz"}}),
            json!({"vlan": 1, "OrigVfState": {"Vlan": 5000}}),
            json!({"vlan": "1"}),
            json!({"OrigVfState": {"HostIFName": "a", "MTU": -1}}),
        ] {
            assert!(noted(&malformed).is_err(), "{malformed}");
        }
    }
}
