//! Addresses of Spiderpool: `"store": "spiderpool"`. The agent of a Spiderpool in the cluster assigns and releases them.

mod agent;
mod http;

use cni::{AddRequest, AddResult, CallContext, StatusRequest};
use identifiers::Attachment;
use journal::Journal;
use plugin_runtime::{
    Error, Node,
    attachment::{self, JournalSpec},
};

pub(crate) use self::agent::AgentAddress;
use self::agent::SpiderpoolAgent;
use crate::{change::Change, conf::NAME};

/// Whether a configuration uses Spiderpool's agent.
///
/// # Errors
/// If `ipam` or `store` has another type.
pub(crate) fn is_used(common: &CallContext<'_>) -> Result<bool, Error> {
    let Some(ipam) = common.conf.fields().object("ipam")? else { return Ok(false) };
    Ok(ipam.text("store")? == Some("spiderpool"))
}

/// ADD: has the agent assign the addresses.
///
/// # Errors
/// If it does not.
pub(crate) fn add(node: &Node, request: &AddRequest<'_>) -> Result<AddResult, cni::Error> {
    let agent = SpiderpoolAgent::of(&request.common)?;
    let address =
        AgentAddress::of(&request.common, &request.attachment, request.netns.to_str().unwrap_or_default())?;
    let journal = match attachment::begin(node, &JournalSpec::without_pod(NAME, request)) {
        Ok(journal) => journal,
        // The agent returns the same addresses.
        Err(Error::Journal(journal::Error::Exists { .. })) => return Ok(agent.assign(node, &address)?),
        Err(error) => return Err(error.into()),
    };
    attachment::run_or_revert(journal, node, |journal: &mut Journal<Change>| {
        journal.record_and_apply(Change::Agent(address.clone()), |_| agent.assign(node, &address))
    })
}

/// DEL without a journal: of a pod that Spiderpool's own plugin attached.
///
/// # Errors
/// If the agent refuses.
pub(crate) fn release(node: &Node, common: &CallContext<'_>, attachment: &Attachment) -> Result<(), Error> {
    match AgentAddress::of(common, attachment, "") {
        Ok(address) => address.release(node),
        // Spiderpool identifies pods by these arguments; without them there is nothing to release.
        Err(_) => Ok(()),
    }
}

/// STATUS: whether the agent answers.
///
/// # Errors
/// If it does not.
pub(crate) fn status(node: &Node, request: &StatusRequest<'_>) -> Result<(), Error> {
    SpiderpoolAgent::of(&request.common)?.check_health(node)
}
