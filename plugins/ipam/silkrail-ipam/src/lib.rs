//! `silkrail-ipam`: allocates addresses from `SpiderIPPool` pools. The claims are files on the node.
//!
//! The plugin is also installed as `spiderpool` and accepts Spiderpool's keys. Start reading at [`add`]; the changes
//! that it makes on the node are in [`change::Change`].

#![forbid(unsafe_code)]

mod add;
mod agent_socket;
mod change;
mod cluster;
mod conf;
mod error;
mod pod_interface_note;
mod pod_pools;
mod pool_full;
mod pool_source;
mod reclaim;
mod requested;
mod sandbox_restart;
mod spiderpool;
mod stable_addresses;
mod status;
#[cfg(test)]
mod tests;

use cni::{AddRequest, AddResult, CallContext, CheckRequest, DelRequest, Error, StatusRequest};
use identifiers::Attachment;
use ipam::LocalStore;
use plugin_runtime::{
    JournaledPlugin, Node, attachment, not_available, orphan_gc,
    policy::{Resource, ResourceUses},
};
use state::journals;

use self::{change::Change, conf::IpamConf, error::IpamError};

/// The IPAM plugin.
#[derive(Debug)]
pub struct IpamPlugin;

impl JournaledPlugin for IpamPlugin {
    const NAME: &'static str = conf::NAME;
    const HAS_ABOUT: bool = true;
    type Change = Change;

    fn uses(
        &self,
        node: &Node,
        common: &CallContext<'_>,
        request: Option<&AddRequest<'_>>,
    ) -> Result<ResourceUses, Error> {
        if spiderpool::is_used(common)? {
            let mut uses = ResourceUses::default();
            uses.add(Resource::Pool, &agent_socket::path(common)?.display());
            return Ok(uses);
        }
        Ok(IpamConf::uses(node, common, request)?)
    }

    fn add(&self, node: &Node, request: &AddRequest<'_>) -> Result<AddResult, Error> {
        if spiderpool::is_used(&request.common)? {
            spiderpool::add(node, request)
        } else {
            add::add(node, request)
        }
    }

    fn del_without_journal(&self, node: &Node, request: &DelRequest<'_>) -> Result<(), Error> {
        if spiderpool::is_used(&request.common).unwrap_or(false) {
            return Ok(spiderpool::release(node, &request.common, &request.attachment)?);
        }
        Ok(release_unjournaled(node, &request.attachment)?)
    }

    fn check(&self, node: &Node, request: &CheckRequest<'_>) -> Result<(), Error> {
        let Some(journal) = attachment::find_complete::<Change>(node, Self::NAME, &request.attachment)?
        else {
            return Err(
                plugin_runtime::Error::from(IpamError::NoAttachment(request.attachment.clone())).into()
            );
        };
        Ok(journal.verify(node)?)
    }

    fn gc_without_journal(&self, node: &Node, valid: &[Attachment]) -> Result<(), plugin_runtime::Error> {
        orphan_gc::release_addresses(node, valid)
    }

    fn status(&self, node: &Node, request: &StatusRequest<'_>) -> Result<(), Error> {
        let checked = match spiderpool::is_used(&request.common).map_err(not_available)? {
            true => spiderpool::status(node, request),
            false => status::status(node, request),
        };
        checked.map_err(not_available)
    }
}

/// Releases the addresses of an attachment that has no journal, if it may be orphaned.
///
/// Without this condition, a repeated DEL would read every claim of the node. An attachment without a journal has no
/// claims, unless its journal was quarantined or all journals were lost. If only its own journal was deleted, GC
/// finds the claims.
fn release_unjournaled(node: &Node, attachment: &Attachment) -> Result<(), plugin_runtime::Error> {
    let Some(store) = LocalStore::open_existing(node.state.root(), journal::boot_id()?)? else {
        return Ok(());
    };
    if !journals::may_be_orphaned(&node.state, conf::NAME, attachment)? {
        return Ok(());
    }
    for address in store.owned_by(attachment)? {
        store.release(None, address, attachment)?;
    }
    Ok(())
}
