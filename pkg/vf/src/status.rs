//! STATUS: whether an ADD of a VF could succeed.

use cni::{Error, StatusRequest};
use plugin_runtime::{Node, delegate, not_available};

use crate::{HostVf, conf};

/// Checks that the node has the configured VF and, for a pod with a device of its own, the exclusive mode. Without a
/// configured VF the device plugin chooses one, so the node must have at least one.
///
/// # Errors
/// What is missing, as code 50; or the error of the IPAM plugin.
pub fn status(node: &Node, request: &StatusRequest<'_>, isolation: bool) -> Result<(), Error> {
    let device = conf::device(&request.common).map_err(not_available)?;
    if isolation {
        exclusive_rdma::require_exclusive_mode(node).map_err(not_available)?;
    }
    delegate::status(request, node)?;
    let exists = device.map_or_else(|| HostVf::any_exists(node), |pci| HostVf::exists(node, pci).map(drop));
    exists.map_err(not_available)
}
