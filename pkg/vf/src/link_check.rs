//! CHECK: whether a VF's link has the attributes that ADD reported.

use cni::{AddResult, CheckRequest, Error as CniError, ResultInterface};
use plugin_runtime::{Error, PodNetns};
use pod_routing::PodRouting;

use crate::error::VfError;

/// Compares the pod's link with `prevResult`: hardware address, addresses and routes.
///
/// # Errors
/// The first difference, or if the result has no such interface.
pub(crate) fn verify_link(
    request: &CheckRequest<'_>,
    pod: &PodNetns,
    prev: &AddResult,
    routing: &PodRouting,
) -> Result<(), CniError> {
    let ifname = request.attachment.ifname.as_str();
    let position = prev.interfaces.iter().position(|i| i.name == ifname);
    let Some((index, described)) = position.and_then(|i| prev.interfaces.get(i).map(|it| (i, it))) else {
        return Err(CniError::config(format!("prevResult has no interface {ifname}")));
    };
    let link = pod.links.link(&request.attachment.ifname).map_err(Error::from)?;
    require_address(described, &link.address.to_string()).map_err(Error::from)?;
    let mut own = prev.clone();
    own.ips.retain(|ip| ip.interface == Some(index));
    Ok(routing.verify(pod, &link, &own)?)
}

/// Checks the hardware address of the pod's link, unless the result has none: it is optional (CNI specification, ADD success).
fn require_address(described: &ResultInterface, is: &str) -> Result<(), VfError> {
    match described.mac.clone().filter(|was| !was.eq_ignore_ascii_case(is)) {
        Some(was) => Err(VfError::OtherMac { name: described.name.clone(), is: is.to_owned(), was }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_of_a_result_need_not_have_a_hardware_address() {
        let result = |mac: Option<&str>| {
            let (name, mac) = ("net1".to_owned(), mac.map(str::to_owned));
            require_address(&ResultInterface { name, mac, ..ResultInterface::default() }, "00:11:22:33:44:5a")
        };
        for mac in [None, Some("00:11:22:33:44:5a"), Some("00:11:22:33:44:5A")] {
            assert!(result(mac).is_ok(), "{mac:?}");
        }
        assert!(matches!(result(Some("00:11:22:33:44:5b")), Err(VfError::OtherMac { .. })));
    }
}
