//! CHECK: whether the attachment is in the state that ADD left.

use cni::{CheckRequest, Error as CniError};
use plugin_runtime::{Error, Node, PodNetns, attachment, delegate};

use crate::{
    change::Change,
    conf::{IbSriovConf, NAME},
    error::IbSriovError,
};

/// Compares claim, settings, GUIDs, RDMA device, link and addresses with the journal and the result of ADD.
pub(crate) fn check(node: &Node, request: &CheckRequest<'_>) -> Result<(), CniError> {
    let conf = IbSriovConf::of(&request.common)?;
    let pod = PodNetns::open(&request.netns, request.own_netns_allowed)?;
    let prev =
        request.common.conf.prev_result()?.ok_or_else(|| CniError::config("required prevResult missing"))?;
    let Some(journal) = attachment::find::<Change>(node, NAME, &request.attachment)? else {
        return Err(Error::from(IbSriovError::NoAttachment(request.attachment.clone())).into());
    };
    journal.verify(node)?;
    for change in journal.changes() {
        if let Change::Rdma(change) = change {
            change.require_in_netns(&pod.netns)?;
        }
    }
    if !journal.changes().iter().any(|change| matches!(change, Change::Move(_))) {
        return Ok(()); // A function in user space has no link, and no addresses.
    }
    delegate::check(request, node)?;
    vf::verify_link(request, &pod, &prev, &conf.routing)
}
