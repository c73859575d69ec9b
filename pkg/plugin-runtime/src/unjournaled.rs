//! The addresses of an attachment without a journal, as after an ADD that the policy of the node refused.

use cni::{DelRequest, Error};
use tracing::warn;

use crate::{
    Node,
    delegate::{self, Delegate},
    policy,
};

/// Makes the IPAM plugin release them. One that the policy refuses to the pod is not called: no ADD called it.
///
/// # Errors
/// The IPAM plugin's own error; or if there is no such plugin.
pub fn release_unjournaled_addresses(request: &DelRequest<'_>, node: &Node) -> Result<(), Error> {
    if let Delegate::Executable(path) = delegate::find(&request.common, node.builtin_ipam)?
        && let Err(why) = policy::require_delegate(&request.common, &path)
    {
        warn!(path = %path.display(), why = why.msg, "not calling the IPAM plugin: addresses that it assigned before are not released");
        return Ok(());
    }
    delegate::del(request, node)
}
