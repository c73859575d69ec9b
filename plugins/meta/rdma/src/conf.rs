//! The function whose RDMA device a configuration selects.

use cni::{AddRequest, AddResult, CallContext, Error as CniError};
use netns::NetNs;
use plugin_runtime::Error;
use rtnl::Handle;
use sysfs::Function;

/// Returns the function: `deviceID`, else `runtimeConfig.deviceID`, else that of the pod's interface.
///
/// # Errors
/// If the value is invalid, or the interface does not have a function.
pub(crate) fn function(request: &AddRequest<'_>, pod: &NetNs, prev: &AddResult) -> Result<Function, Error> {
    match written_function(&request.common)? {
        Some(function) => Ok(function),
        None => of_interface(request, pod, prev),
    }
}

/// Returns `deviceID`, else `runtimeConfig.deviceID`.
///
/// # Errors
/// If the value is invalid.
pub(crate) fn written_function(common: &CallContext<'_>) -> Result<Option<Function>, CniError> {
    let runtime = common.conf.runtime()?;
    let written = match common.conf.fields().text("deviceID")? {
        Some(text) => Some(text),
        None => runtime.map_or(Ok(None), |runtime| runtime.text("deviceID"))?,
    };
    written.map(|text| text.parse().map_err(|e| CniError::config(format!("deviceID: {e}")))).transpose()
}

/// Returns `rdma.allowPf`: whether the device of a PF is moved although the node uses it.
///
/// # Errors
/// If the value is invalid.
pub(crate) fn allows_pf(common: &CallContext<'_>) -> Result<bool, CniError> {
    let Some(rdma) = common.conf.fields().object("rdma")? else { return Ok(false) };
    Ok(rdma.flag("allowPf")?.unwrap_or(false))
}

/// Returns the function of the interface that the chain created in the pod, from `prevResult` or rtnetlink.
fn of_interface(request: &AddRequest<'_>, pod: &NetNs, prev: &AddResult) -> Result<Function, Error> {
    let unknown = |why: String| {
        let msg = "\"DeviceID\" network configuration attribute is required for rdma CNI";
        Error::from(CniError::config(msg).with_details(why))
    };
    let ifname = &request.attachment.ifname;
    if let Some(pci) =
        prev.interfaces.iter().find(|i| i.name == ifname.as_str()).and_then(|i| i.pci_id.as_ref())
    {
        return pci.parse().map_err(|e| unknown(format!("prevResult: {e}")));
    }
    let link = Handle::open_in(pod)?;
    let link =
        link.find_link(ifname)?.ok_or_else(|| unknown(format!("the pod has no interface {ifname}")))?;
    let device =
        link.device.ok_or_else(|| unknown(format!("interface {ifname} does not belong to a device")))?;
    device.parse().map_err(|e| unknown(format!("interface {ifname}: {e}")))
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf, ResultInterface};

    use super::*;

    fn request(keys: &str) -> AddRequest<'static> {
        let conf = NetConf::parse(format!(r#"{{"name": "rail", {keys}}}"#).as_bytes()).unwrap();
        AddRequest {
            attachment: "c0ffee@net1".parse().unwrap(),
            netns: "/run/netns/a".into(),
            own_netns_allowed: false,
            common: CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: &[] },
        }
    }

    #[test]
    fn the_device_is_the_configured_one_or_else_that_of_the_interface() {
        let interface = |name: &str, pci_id: Option<&str>| ResultInterface {
            name: name.into(),
            pci_id: pci_id.map(str::to_owned),
            ..ResultInterface::default()
        };
        let prev = AddResult {
            interfaces: vec![
                interface("eth0", Some("0000:af:00.7")),
                interface("net1", Some("0000:af:00.4")),
            ],
            ..AddResult::default()
        };
        let pod = NetNs::current().unwrap();
        for (keys, expected) in [
            (r#""deviceID": "0000:af:00.2", "runtimeConfig": {"deviceID": "0000:af:00.3"}"#, "0000:af:00.2"),
            (r#""deviceID": "", "runtimeConfig": {"deviceID": "0000:af:00.3"}"#, "0000:af:00.3"),
            (r#""runtimeConfig": {"deviceID": "mlx5_core.sf.2"}"#, "mlx5_core.sf.2"),
            (r#""runtimeConfig": {}"#, "0000:af:00.4"),
        ] {
            assert_eq!(function(&request(keys), &pod, &prev).unwrap().to_string(), expected, "{keys}");
        }
        let without = AddResult { interfaces: vec![interface("net1", None)], ..AddResult::default() };
        assert!(function(&request(r#""runtimeConfig": {}"#), &pod, &without).is_err());
    }
}
