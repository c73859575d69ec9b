//! `ifacer`: creates the VLAN or bond link that the next plugin of the chain has as its master, and deletes it after the last
//! pod.
//!
//! Each [`master::Master`] has a record, [`record::MasterRecord`], with the attachments that use it. The records are changed
//! under one lock, with the links. A use is the change in an attachment's journal: read [`MasterUse`] first.

#![forbid(unsafe_code)]

mod bond_options;
mod conf;
mod create;
mod error;
mod examine;
mod former_link;
mod master;
mod master_use;
mod orphan_users;
mod record;
mod unused;
mod usage;
mod user_files;

use cni::{AddRequest, AddResult, CallContext, CheckRequest, DelRequest, Error, StatusRequest};
use identifiers::{Attachment, LinkName};
pub use master_use::MasterUse;
use plugin_runtime::{
    JournaledPlugin, Node, UnusedMaster,
    attachment::{self, JournalSpec},
    not_available,
    policy::ResourceUses,
};

use self::{error::MasterError, examine::examine_all, master::Master};

/// The ifacer plugin.
#[derive(Debug)]
pub struct IfacerPlugin;

impl JournaledPlugin for IfacerPlugin {
    const NAME: &'static str = "ifacer";
    type Change = MasterUse;

    fn uses(
        &self,
        node: &Node,
        common: &CallContext<'_>,
        _: Option<&AddRequest<'_>>,
    ) -> Result<ResourceUses, Error> {
        let mut uses = ResourceUses::default();
        for master in masters(node, common)? {
            master.add_uses(node.links()?, &mut uses)?;
        }
        Ok(uses)
    }

    fn add(&self, node: &Node, request: &AddRequest<'_>) -> Result<AddResult, Error> {
        let masters = masters(node, &request.common)?;
        let result = request.common.conf.prev_result()?.unwrap_or_default();
        // CNI 0.1.0 and 0.2.0 cannot express a result without addresses: fail before anything is created.
        result.to_value(request.common.conf.version)?;
        let pod = plugin_runtime::netns_of(&request.netns, request.own_netns_allowed)?;
        examine_all(node, &masters)?;
        if masters.is_empty() {
            return Ok(result);
        }
        let journal = attachment::begin(
            node,
            &JournalSpec {
                plugin: Self::NAME,
                attachment: &request.attachment,
                network: &request.common.conf.name,
                netns_path: &request.netns,
                netns: Some(pod.id()),
            },
        )?;
        attachment::run_or_revert(journal, node, |journal| {
            for master in &masters {
                let change = MasterUse::of(master, &request.attachment);
                journal.record_and_apply(change, |change| change.acquire(node, master))?;
            }
            Ok(result)
        })
    }

    fn del_without_journal(&self, node: &Node, request: &DelRequest<'_>) -> Result<(), Error> {
        Ok(orphan_users::release_attachment(node, &request.attachment)?)
    }

    fn check(&self, node: &Node, request: &CheckRequest<'_>) -> Result<(), Error> {
        let masters = masters(node, &request.common)?;
        let failed = match attachment::find::<MasterUse>(node, Self::NAME, &request.attachment)? {
            Some(journal) if journal.is_complete() => return Ok(journal.verify(node)?),
            Some(_) => MasterError::Incomplete(request.attachment.clone()),
            None if masters.is_empty() => return Ok(()),
            None => MasterError::NoAttachment(request.attachment.clone()),
        };
        Err(plugin_runtime::Error::from(failed).into())
    }

    fn gc_without_journal(&self, node: &Node, valid: &[Attachment]) -> Result<(), plugin_runtime::Error> {
        orphan_users::release(node, valid)
    }

    fn unused_masters(&self, node: &Node) -> Result<Vec<UnusedMaster>, plugin_runtime::Error> {
        unused::list(node)
    }

    fn end_unused_master(&self, node: &Node, name: &LinkName) -> Result<(), plugin_runtime::Error> {
        unused::end(node, name)
    }

    fn status(&self, node: &Node, request: &StatusRequest<'_>) -> Result<(), Error> {
        let masters = masters(node, &request.common)?;
        examine_all(node, &masters).map_err(not_available)
    }
}

fn masters(node: &Node, common: &CallContext<'_>) -> Result<Vec<Master>, Error> {
    conf::masters(common, &|written| master::name_of(node.links()?, written))
}
