//! `silkrail-ipam`: addresses from `SpiderIPPool` pools, claimed on the node's own disk.
//!
//! It answers to `spiderpool` too and reads Spiderpool's keys. Read [`add`] first; what it changes on the
//! node is [`change::Change`].

#![forbid(unsafe_code)]

mod add;
mod change;
mod conf;
mod error;
mod pod_interface_note;
mod pool_full;
mod reclaim;
mod requested;
mod sandbox_restart;
mod status;

use cni::{AddRequest, AddResult, CheckRequest, DelRequest, Error, StatusRequest};
use identifiers::Attachment;
use ipam::LocalStore;
use plugin_runtime::{JournaledPlugin, Node, attachment, not_available, orphan_gc};
use state::journals;

use self::{change::Change, error::IpamError};

/// The IPAM plugin.
#[derive(Debug)]
pub struct IpamPlugin;

const NAME: &str = IpamPlugin::NAME;

impl JournaledPlugin for IpamPlugin {
    const NAME: &'static str = "silkrail-ipam";
    const HAS_ABOUT: bool = true;
    type Change = Change;

    fn add(&self, node: &Node, request: &AddRequest<'_>) -> Result<AddResult, Error> {
        add::add(node, request)
    }

    fn del_without_journal(&self, node: &Node, request: &DelRequest<'_>) -> Result<(), Error> {
        Ok(release_unjournaled(node, &request.attachment)?)
    }

    fn check(&self, node: &Node, request: &CheckRequest<'_>) -> Result<(), Error> {
        let Some(journal) = attachment::find::<Change>(node, NAME, &request.attachment)? else {
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
        status::status(node, request).map_err(not_available)
    }
}

/// Releases the addresses of an attachment whose journal was lost.
///
/// Only then every claim is looked at: runtimes repeat a DEL, and each would cost a look at each address in use. A
/// journal that is there no more was taken back whole, unless it was set aside, or all of them are gone. One that
/// somebody has removed among others is for GC, which finds claims without a journal.
fn release_unjournaled(node: &Node, attachment: &Attachment) -> Result<(), plugin_runtime::Error> {
    let Some(store) = LocalStore::open_existing(node.state.root(), journal::boot_id()?)? else {
        return Ok(());
    };
    if !journals::may_be_orphaned(&node.state, NAME, attachment)? {
        return Ok(());
    }
    for address in store.owned_by(attachment)? {
        store.release(None, address, attachment)?;
    }
    Ok(())
}
