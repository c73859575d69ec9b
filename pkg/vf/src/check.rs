//! CHECK: whether the attachment of a VF is in the state that ADD left.

use cni::{CheckRequest, Error as CniError};
use plugin_runtime::{Error, Node, PodNetns, attachment, delegate};
use pod_routing::PodRouting;

use crate::{change::Change, error::VfError, link_check::verify_link};

/// Compares the VF, its RDMA device, link and addresses with the journal of a plugin and the result of ADD.
///
/// # Errors
/// The first difference.
pub fn check(
    plugin: &str,
    node: &Node,
    request: &CheckRequest<'_>,
    routing: &PodRouting,
) -> Result<(), CniError> {
    let pod = PodNetns::open(&request.netns, request.own_netns_allowed)?;
    let prev =
        request.common.conf.prev_result()?.ok_or_else(|| CniError::config("required prevResult missing"))?;
    let Some(journal) = attachment::find_complete::<Change>(node, plugin, &request.attachment)? else {
        return Err(Error::from(VfError::NoAttachment(request.attachment.clone())).into());
    };
    let changes = journal.changes();
    if changes.iter().any(|change| matches!(change, Change::Delegated(_))) {
        delegate::check(request, node)?;
    }
    journal.verify(node)?;
    for change in changes {
        if let Change::Rdma(change) = change {
            change.require_in_netns(&pod.netns)?;
        }
    }
    // A function in user space has no link.
    let has_link = changes.iter().any(|change| matches!(change, Change::Move(_)));
    if has_link { verify_link(request, &pod, &prev, routing) } else { Ok(()) }
}
