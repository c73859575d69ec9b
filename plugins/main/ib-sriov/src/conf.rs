//! The configuration of the ib-sriov plugin.

use std::path::PathBuf;

use cni::{CallContext, ConfObject, Error};
use exclusive_rdma::ExclusiveRdmaRequirement;
use identifiers::PciAddress;
use plugin_runtime::delegate;
use pod_routing::PodRouting;
use rdma::Guid;

/// The name of the plugin, the `type` of its configurations.
pub(crate) const NAME: &str = "ib-sriov";

/// The key of `args.cni` by which ib-kubernetes tells that it has added the pod's GUID to the partition.
const IB_KUBERNETES_STATE: &str = "mellanox.infiniband.app";

/// A configuration that was read and checked.
#[derive(Debug)]
pub(crate) struct IbSriovConf<D = PciAddress> {
    /// The VF, or a PF for a virtual machine. For STATUS it may be missing: Multus adds that of a pod.
    pub(crate) device: D,
    /// The GUID of the VF's device and port: `runtimeConfig.infinibandGUID`, else `args.cni.guid`.
    pub(crate) guid: Option<Guid>,
    /// `IFLA_VF_LINK_STATE`: 0 auto (follows the port), 1 enable, 2 disable.
    pub(crate) link_state: Option<u32>,
    /// Whether the VF must be bound to vfio-pci; `None` means either is fine.
    pub(crate) vfio: Option<bool>,
    /// Whether a GUID must be configured, because ib-kubernetes assigns it.
    pub(crate) needs_guid: bool,
    /// Set if the VF's RDMA device moves to the pod too: `rdmaIsolation`.
    pub(crate) isolation: Option<ExclusiveRdmaRequirement>,
    pub(crate) routing: PodRouting,
    /// The device information file that Multus requests: `runtimeConfig.CNIDeviceInfoFile`.
    pub(crate) device_info: Option<PathBuf>,
}

impl IbSriovConf {
    /// Reads a configuration.
    ///
    /// # Errors
    /// If a value is invalid; the message contains its key.
    pub(crate) fn of(common: &CallContext<'_>) -> Result<Self, Error> {
        if common.conf.fields().flag("ibKubernetesEnabled")?.unwrap_or(false) {
            let args = common.conf.fields().object("args")?;
            require_configured(args.as_ref().map_or(Ok(None), |args| args.object("cni"))?.as_ref())?;
        }
        Self::with_device(common, vf::conf::required_device(common, "deviceID is required")?)
    }
}

impl<D> IbSriovConf<D> {
    /// Reads every key of a configuration except for the device.
    ///
    /// # Errors
    /// If a value is invalid; the message contains its key.
    pub(crate) fn with_device(common: &CallContext<'_>, device: D) -> Result<Self, Error> {
        let fields = common.conf.fields();
        if delegate::needs_link(common)? {
            return Err(Error::config("ipam type dhcp is not supported")
                .with_details("the dhcp plugin needs Ethernet addresses; use another IPAM plugin"));
        }
        let args = fields.object("args")?;
        let args = args.as_ref().map_or(Ok(None), |args| args.object("cni"))?;
        Ok(Self {
            device,
            guid: guid(common, args.as_ref())?,
            link_state: vf::conf::link_state(common)?,
            vfio: fields.flag("vfioPciMode")?.filter(|on| *on),
            needs_guid: fields.flag("ibKubernetesEnabled")?.unwrap_or(false),
            isolation: isolation(common)?,
            routing: PodRouting::of(common)?.without_conflict_detection("ib-sriov")?,
            device_info: vf::device_info::path(common)?,
        })
    }
}

/// Returns what the pod requires of the VF's RDMA device; `None` without `rdmaIsolation`.
fn isolation(common: &CallContext<'_>) -> Result<Option<ExclusiveRdmaRequirement>, Error> {
    let need = ExclusiveRdmaRequirement::of(common)?;
    match (common.conf.fields().flag("rdmaIsolation")?, need) {
        (Some(true), need) => Ok(Some(need)),
        (_, ExclusiveRdmaRequirement::Device) => Ok(None),
        (_, ExclusiveRdmaRequirement::Ready(_)) => Err(Error::config(
            "rdma.require: ib-sriov does not move an RDMA device without \"rdmaIsolation\": true; set that",
        )),
    }
}

fn require_configured(args: Option<&ConfObject<'_>>) -> Result<(), Error> {
    let state = args.map_or(Ok(None), |args| args.text(IB_KUBERNETES_STATE))?;
    if state == Some("configured") {
        return Ok(());
    }
    let is = state.map_or_else(|| "missing".into(), |state| format!("{state:?}"));
    Err(Error::config(format!(
        "ibKubernetesEnabled: InfiniBand status args.cni[{IB_KUBERNETES_STATE:?}] is {is}, expected \"configured\""
    ))
    .with_details(
        "ib-kubernetes adds it to the pod's network annotation together with the GUID: check that it runs and reaches \
         the subnet manager, and retry",
    ))
}

fn guid(common: &CallContext<'_>, args: Option<&ConfObject<'_>>) -> Result<Option<Guid>, Error> {
    let runtime = common.conf.runtime()?;
    let runtime = runtime.as_ref().map_or(Ok(None), |runtime| runtime.text("infinibandGUID"))?;
    let text = match runtime.filter(|text| !text.is_empty()) {
        Some(text) => Some(text),
        None => args.map_or(Ok(None), |args| args.text("guid"))?.filter(|text| !text.is_empty()),
    };
    text.map(|text| {
        text.parse().map_err(|e: rdma::InvalidGuid| {
            Error::config(format!("invalid guid {text}")).with_details(e.to_string())
        })
    })
    .transpose()
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf};
    use serde_json::{Value, json};

    use super::*;

    fn read(keys: &Value) -> Result<IbSriovConf<()>, Error> {
        let mut conf = json!({"name": "ib"});
        conf.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let conf = NetConf::parse(conf.to_string().as_bytes()).unwrap();
        let call = CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: &[] };
        IbSriovConf::with_device(&call, ())
    }

    #[test]
    fn the_guid_of_the_runtime_precedes_that_of_the_arguments_and_an_empty_one_is_none() {
        let (one, two) = ("02:00:00:00:00:00:00:01", "02:00:00:00:00:00:00:02");
        for (runtime, args, expected) in [
            (json!(one), json!(two), Some(1)),
            (json!(""), json!(two), Some(2)),
            (json!(null), json!(two), Some(2)),
            (json!(one), json!(""), Some(1)),
            (json!(""), json!(""), None),
            (json!(null), json!(null), None),
        ] {
            let keys = json!({"runtimeConfig": {"infinibandGUID": runtime}, "args": {"cni": {"guid": args}}});
            let guid = expected.map(|last| Guid(0x0200_0000_0000_0000 + last));
            assert_eq!(read(&keys).unwrap().guid, guid, "{keys}");
        }
    }

    #[test]
    fn the_rdma_device_moves_only_with_isolation_and_a_false_flag_is_as_none() {
        let conf = read(&json!({"rdmaIsolation": false, "vfioPciMode": false, "ibKubernetesEnabled": false}));
        let conf = conf.unwrap();
        assert_eq!((conf.isolation, conf.vfio, conf.needs_guid), (None, None, false));
        let conf =
            read(&json!({"rdmaIsolation": true, "vfioPciMode": true, "ibKubernetesEnabled": true})).unwrap();
        assert_eq!(conf.isolation, Some(ExclusiveRdmaRequirement::Device));
        assert_eq!((conf.vfio, conf.needs_guid), (Some(true), true));
        let ready = read(&json!({"rdmaIsolation": true, "rdma": {"require": true}})).unwrap().isolation;
        assert!(matches!(ready, Some(ExclusiveRdmaRequirement::Ready(_))), "{ready:?}");
    }
}
