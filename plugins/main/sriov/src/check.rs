//! CHECK: whether the attachment is in the state that ADD left.

use cni::{CheckRequest, Error as CniError};
use plugin_runtime::{Error, Node, PodNetns, attachment, delegate};

use crate::{
    change::Change,
    conf::{NAME, SriovConf},
    error::SriovError,
};

/// Compares claim, settings, link and addresses with the journal and the result of ADD.
pub(crate) fn check(node: &Node, request: &CheckRequest<'_>) -> Result<(), CniError> {
    let conf = SriovConf::of(&request.common)?;
    let pod = PodNetns::open(&request.netns, request.own_netns_allowed)?;
    delegate::check(request, node)?;
    let prev =
        request.common.conf.prev_result()?.ok_or_else(|| CniError::config("required prevResult missing"))?;
    let journal = attachment::find::<Change>(node, NAME, &request.attachment)?;
    let Some(journal) = journal else {
        return Err(Error::from(SriovError::NoAttachment(request.attachment.clone())).into());
    };
    journal.verify(node)?;
    for change in journal.changes() {
        if let Change::Rdma(change) = change {
            change.require_in_netns(&pod.netns)?;
        }
    }
    if !journal.changes().iter().any(|change| matches!(change, Change::Move(_))) {
        return Ok(()); // A VF in user space has no link.
    }
    vf::verify_link(request, &pod, &prev, &conf.routing)
}
