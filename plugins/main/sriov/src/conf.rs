//! The configuration of the sriov plugin.

use std::path::PathBuf;

use cni::{CallContext, ConfObject, Error, ErrorCode};
use exclusive_rdma::ExclusiveRdmaRequirement;
use identifiers::{MacAddr, VlanId, VlanProto, VlanQos};
use plugin_runtime::policy::{Resource, ResourceUses};
use pod_routing::PodRouting;
use rtnl::VfVlanTag;
use sysfs::Function;
use tracing::warn;

/// The name of the plugin, the `type` of its configurations.
pub(crate) const NAME: &str = "sriov";

/// A configuration that was read and checked.
#[derive(Debug)]
pub(crate) struct SriovConf<D = Function> {
    /// The VF or scalable function. For STATUS it may be missing: Multus adds that of a pod.
    pub(crate) device: D,
    pub(crate) vlan: Option<VfVlanTag>,
    pub(crate) mac: Option<MacAddr>,
    pub(crate) mtu: Option<u32>,
    /// `min_tx_rate` and `max_tx_rate` in Mbit/s; 0 means no limit.
    pub(crate) rate: Option<(u32, u32)>,
    pub(crate) spoofchk: Option<bool>,
    pub(crate) trust: Option<bool>,
    /// `IFLA_VF_LINK_STATE`: 0 auto (follows the port), 1 enable, 2 disable.
    pub(crate) link_state: Option<u32>,
    /// Set if the VF's RDMA device moves to the pod too: `rdmaIsolation`.
    pub(crate) isolation: Option<ExclusiveRdmaRequirement>,
    pub(crate) routing: PodRouting,
    /// The device information file that Multus requests: `runtimeConfig.CNIDeviceInfoFile`.
    pub(crate) device_info: Option<PathBuf>,
}

impl SriovConf {
    /// Reads a configuration.
    ///
    /// # Errors
    /// If a value is invalid; the message contains its key.
    pub(crate) fn of(common: &CallContext<'_>) -> Result<Self, Error> {
        if common.conf.ipam_type()?.is_none() {
            common.conf.require_results_without_addresses()?;
        }
        let device = vf::conf::required_device(common, "deviceID: VF pci addr is required")?;
        let conf = Self::with_device(common, device)?;
        conf.require_supported()?;
        Ok(conf)
    }

    /// Refuses the settings that a PF makes, if the device is not a VF of one.
    fn require_supported(&self) -> Result<(), Error> {
        let set = [
            ("vlan", self.vlan.is_some()),
            ("min_tx_rate, max_tx_rate", self.rate.is_some()),
            ("spoofchk", self.spoofchk.is_some()),
            ("trust", self.trust.is_some()),
            ("link_state", self.link_state.is_some()),
        ];
        match (&self.device, set.iter().find(|(_, is_set)| *is_set)) {
            (Function::Auxiliary(sf), Some((key, _))) => Err(Error::new(
                ErrorCode::UNSUPPORTED_FIELD,
                format!("{key}: {sf} is a scalable function, which has no such setting on its PF"),
            )
            .with_details(format!("remove {key}, or use a VF"))),
            _ => Ok(()),
        }
    }
}

impl<D> SriovConf<D> {
    /// Reads every key of a configuration except for the device.
    ///
    /// # Errors
    /// If a value is invalid; the message contains its key.
    pub(crate) fn with_device(common: &CallContext<'_>, device: D) -> Result<Self, Error> {
        let fields = common.conf.fields();
        Ok(Self {
            device,
            vlan: vlan(&fields)?,
            mac: plugin_runtime::conf::mac(common)?,
            mtu: positive(&fields, "mtu")?.filter(|mtu| *mtu > 0),
            rate: rate(&fields)?,
            spoofchk: switch(&fields, "spoofchk")?,
            trust: switch(&fields, "trust")?,
            link_state: vf::conf::link_state(common)?,
            isolation: isolation(common)?,
            routing: PodRouting::of(common)?,
            device_info: vf::device_info::path(common)?,
        })
    }
}

impl SriovConf<Option<Function>> {
    /// Returns what the configuration takes of the node.
    pub(crate) fn uses(&self) -> ResourceUses {
        let mut uses = ResourceUses::default();
        uses.add_some(Resource::Device, self.device.as_ref());
        uses.add_some(Resource::Vlan, self.vlan.map(|tag| tag.id.get()));
        uses.add_some(Resource::VlanQos, self.vlan.map(|tag| tag.qos.get()).filter(|qos| *qos != 0));
        uses.add_some(Resource::MinTxRate, self.rate.map(|(min, _)| min));
        uses.add_some(Resource::MaxTxRate, self.rate.map(|(_, max)| max));
        uses.add_some(Resource::Mac, self.mac);
        uses.add_switch(Resource::SpoofCheck, self.spoofchk);
        uses.add_switch(Resource::Trust, self.trust);
        uses.add_some(Resource::LinkState, self.link_state.map(vf::conf::link_state_text));
        uses
    }
}

/// Returns what the pod requires of the VF's RDMA device; `None` without `rdmaIsolation`.
fn isolation(common: &CallContext<'_>) -> Result<Option<ExclusiveRdmaRequirement>, Error> {
    let need = ExclusiveRdmaRequirement::of(common)?;
    match (common.conf.fields().flag("rdmaIsolation")?, need) {
        (Some(true), need) => Ok(Some(need)),
        (_, ExclusiveRdmaRequirement::Device) => Ok(None),
        (_, ExclusiveRdmaRequirement::Ready(_)) => Err(Error::config(
            "rdma.require: sriov does not move an RDMA device without \"rdmaIsolation\": true; set that, or move \
             rdma.require to the configuration of the rdma plugin, which follows in the chain",
        )),
    }
}

fn vlan(fields: &ConfObject<'_>) -> Result<Option<VfVlanTag>, Error> {
    let invalid = |e: identifiers::InvalidVlan| Error::config(e.to_string());
    let (id, qos, proto) = (fields.integer("vlan")?, fields.integer("vlanQoS")?, fields.text("vlanProto")?);
    let Some(id) = id else {
        return match (qos, proto) {
            (Some(_), _) => {
                Err(Error::config("vlan id must be configured to set vlan QoS to a non-nil value"))
            }
            (_, Some(_)) => Err(Error::config("vlan id must be configured to set vlan proto")),
            _ => Ok(None),
        };
    };
    let id = VlanId::try_from(id).map_err(invalid)?;
    let qos = VlanQos::try_from(qos.unwrap_or(0)).map_err(invalid)?;
    let proto: VlanProto = proto.unwrap_or("802.1q").parse().map_err(invalid)?;
    if id == VlanId::NONE && qos.get() != 0 {
        return Err(Error::config(format!(
            "non-zero vlan id must be configured to set vlan QoS to {}",
            qos.get()
        )));
    }
    if id == VlanId::NONE && proto == VlanProto::Dot1Ad {
        return Err(Error::config("non-zero vlan id must be configured to set vlan proto 802.1ad"));
    }
    Ok(Some(VfVlanTag { id, qos, proto }))
}

fn rate(fields: &ConfObject<'_>) -> Result<Option<(u32, u32)>, Error> {
    let (min, max) = (positive(fields, "min_tx_rate")?, positive(fields, "max_tx_rate")?);
    if min.is_none() && max.is_none() {
        return Ok(None);
    }
    let (min, max) = (min.unwrap_or(0), max.unwrap_or(0));
    if max != 0 && min > max {
        return Err(Error::config(format!("min_tx_rate {min} is above max_tx_rate {max}")));
    }
    Ok(Some((min, max)))
}

fn positive(fields: &ConfObject<'_>, key: &str) -> Result<Option<u32>, Error> {
    let Some(value) = fields.integer(key)? else { return Ok(None) };
    u32::try_from(value).map(Some).map_err(|_| fields.invalid(key, "a number of at least 0", value))
}

/// Reads `on` or `off`. As in the Go plugin, an empty text counts as absent, and any other as `off`.
fn switch(fields: &ConfObject<'_>, key: &str) -> Result<Option<bool>, Error> {
    match fields.text(key)? {
        None | Some("") => Ok(None),
        Some("on") => Ok(Some(true)),
        Some("off") => Ok(Some(false)),
        Some(other) => {
            warn!(key, value = other, "expected on or off: counts as off");
            Ok(Some(false))
        }
    }
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf};
    use serde_json::{Value, json};

    use super::*;

    fn read(keys: &Value) -> Result<SriovConf<()>, Error> {
        let mut conf = json!({"name": "rail"});
        conf.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let conf = NetConf::parse(conf.to_string().as_bytes()).unwrap();
        let call = CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: &[] };
        SriovConf::with_device(&call, ())
    }

    #[test]
    fn the_rate_of_a_vf_is_a_minimum_and_a_maximum_of_which_zero_is_none() {
        for (keys, expected) in [
            (json!({}), None),
            (json!({"min_tx_rate": 100}), Some((100, 0))),
            (json!({"max_tx_rate": 200}), Some((0, 200))),
            (json!({"min_tx_rate": 100, "max_tx_rate": 0}), Some((100, 0))),
            (json!({"min_tx_rate": 0, "max_tx_rate": 0}), Some((0, 0))),
            (json!({"min_tx_rate": 200, "max_tx_rate": 200}), Some((200, 200))),
        ] {
            assert_eq!(read(&keys).unwrap().rate, expected, "{keys}");
        }
        for invalid in [
            json!({"min_tx_rate": 201, "max_tx_rate": 200}),
            json!({"min_tx_rate": -1}),
            json!({"max_tx_rate": -1}),
        ] {
            assert!(read(&invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_vlan_tag_has_the_defaults_of_the_go_plugin() {
        let vlan = |keys: &Value| {
            read(keys).unwrap().vlan.map(|tag| (tag.id.get(), tag.qos.get(), tag.proto == VlanProto::Dot1Ad))
        };
        assert_eq!(vlan(&json!({})), None);
        assert_eq!(vlan(&json!({"vlan": 0})), Some((0, 0, false)));
        assert_eq!(vlan(&json!({"vlan": 0, "vlanQoS": 0, "vlanProto": "802.1q"})), Some((0, 0, false)));
        assert_eq!(vlan(&json!({"vlan": 4094, "vlanQoS": 7, "vlanProto": "802.1ad"})), Some((4094, 7, true)));
        for invalid in [
            json!({"vlan": 4095}),
            json!({"vlan": -1}),
            json!({"vlan": 5, "vlanQoS": 8}),
            json!({"vlan": 0, "vlanQoS": 1}),
            json!({"vlan": 0, "vlanProto": "802.1ad"}),
            json!({"vlanQoS": 0}),
            json!({"vlanProto": "802.1q"}),
        ] {
            assert!(read(&invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn an_mtu_of_zero_and_an_empty_switch_are_none() {
        let conf = read(&json!({"mtu": 0, "spoofchk": "", "trust": ""})).unwrap();
        assert_eq!((conf.mtu, conf.spoofchk, conf.trust), (None, None, None));
        let conf = read(&json!({"mtu": 1, "spoofchk": "off", "trust": "on"})).unwrap();
        assert_eq!((conf.mtu, conf.spoofchk, conf.trust), (Some(1), Some(false), Some(true)));
        assert_eq!(read(&json!({"spoofchk": "yes"})).unwrap().spoofchk, Some(false));
    }

    #[test]
    fn the_rdma_device_moves_only_with_isolation() {
        assert_eq!(read(&json!({"rdmaIsolation": false})).unwrap().isolation, None);
        let isolated = read(&json!({"rdmaIsolation": true, "rdma": {"require": false}})).unwrap().isolation;
        assert_eq!(isolated, Some(ExclusiveRdmaRequirement::Device));
        assert!(read(&json!({"rdmaIsolation": false, "rdma": {"require": true}})).is_err());
    }

    #[test]
    fn a_scalable_function_has_none_of_the_settings_of_a_vf() {
        for keys in [
            json!({"vlan": 0}),
            json!({"min_tx_rate": 0}),
            json!({"max_tx_rate": 0}),
            json!({"spoofchk": "off"}),
            json!({"trust": "off"}),
            json!({"link_state": "auto"}),
            json!({"mtu": 1400, "mac": "c2:11:22:33:44:55"}),
        ] {
            let supported = |device: &str| {
                let SriovConf {
                    vlan,
                    mac,
                    mtu,
                    rate,
                    spoofchk,
                    trust,
                    link_state,
                    isolation,
                    routing,
                    device_info,
                    ..
                } = read(&keys).unwrap();
                let device = device.parse().unwrap();
                SriovConf {
                    device,
                    vlan,
                    mac,
                    mtu,
                    rate,
                    spoofchk,
                    trust,
                    link_state,
                    isolation,
                    routing,
                    device_info,
                }
                .require_supported()
            };
            assert_eq!(supported("mlx5_core.sf.2").is_ok(), keys["mtu"].is_number(), "{keys}");
            assert!(supported("0000:af:00.2").is_ok(), "{keys}");
        }
    }
}
