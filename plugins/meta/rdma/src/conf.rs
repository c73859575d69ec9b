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
