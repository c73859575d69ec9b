//! CHECK: whether a VF's link has the attributes that ADD reported.

use cni::{AddResult, CheckRequest, Error as CniError};
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
    let is = link.address.to_string();
    let was = described.mac.clone().unwrap_or_default();
    if !was.eq_ignore_ascii_case(&is) {
        return Err(Error::from(VfError::OtherMac { name: ifname.to_owned(), is, was }).into());
    }
    let mut own = prev.clone();
    own.ips.retain(|ip| ip.interface == Some(index));
    Ok(routing.verify(pod, &link, &own)?)
}
