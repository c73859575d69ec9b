//! STATUS: whether an ADD of a VF could succeed.

use cni::{Error, StatusRequest};
use plugin_runtime::{Node, delegate, not_available};

use sysfs::Function;

use crate::HostFunction;

/// Checks that the node has the configured VF or scalable function and, for a pod with a device of its own, the exclusive mode. Without a
/// configured one the device plugin chooses one, so the node must have at least one.
///
/// # Errors
/// What is missing, as code 50; or the error of the IPAM plugin.
pub fn status(
    node: &Node,
    request: &StatusRequest<'_>,
    device: Option<Function>,
    isolation: bool,
) -> Result<(), Error> {
    if isolation {
        exclusive_rdma::require_exclusive_mode(node).map_err(not_available)?;
    }
    delegate::status(request, node)?;
    let exists = match &device {
        Some(function) => HostFunction::exists(node, function),
        None => HostFunction::any_exists(node),
    };
    exists.map_err(not_available)
}
