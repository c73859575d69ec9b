//! `rdma`: moves the RDMA device of the chain's function to the pod, and returns it to the host.
//!
//! It follows `sriov` in a chain, in exclusive RDMA mode. Read [`add`] first; its changes on the node are
//! [`exclusive_rdma::RdmaChange`].

#![forbid(unsafe_code)]

mod add;
mod conf;
mod error;
mod go_plugin;
mod pf;

use cni::{AddRequest, AddResult, CallContext, CheckRequest, DelRequest, Error, StatusRequest};
use exclusive_rdma::{ExclusiveRdmaRequirement, RdmaChange};
pub use go_plugin::GoRdmaState;
use identifiers::Attachment;
use plugin_runtime::{
    JournaledPlugin, Node, attachment, not_available, orphan_gc,
    policy::{Resource, ResourceUses},
};
use state::claim::ClaimKind;

use self::error::RdmaError;

/// The rdma plugin.
#[derive(Debug)]
pub struct RdmaPlugin;

impl JournaledPlugin for RdmaPlugin {
    const NAME: &'static str = exclusive_rdma::PLUGIN;
    type Change = RdmaChange;

    /// The device of the pod's interface, too: the plugin before it may be one of another project.
    fn uses(
        &self,
        _: &Node,
        common: &CallContext<'_>,
        request: Option<&AddRequest<'_>>,
    ) -> Result<ResourceUses, Error> {
        let function = match (request, common.conf.prev_result()?) {
            (Some(request), Some(prev)) => {
                let pod = plugin_runtime::netns_of(&request.netns, request.own_netns_allowed)?;
                Some(conf::function(request, &pod, &prev)?)
            }
            _ => conf::written_function(common)?,
        };
        let mut uses = ResourceUses::default();
        uses.add_some(Resource::Device, function);
        uses.add_switch(Resource::AllowPf, conf::allows_pf(common)?.then_some(true));
        Ok(uses)
    }

    fn add(&self, node: &Node, request: &AddRequest<'_>) -> Result<AddResult, Error> {
        add::add(node, request)
    }

    fn del_without_journal(&self, node: &Node, request: &DelRequest<'_>) -> Result<(), Error> {
        Ok(go_plugin::revert_go_attachment(request, node)?)
    }

    fn check(&self, node: &Node, request: &CheckRequest<'_>) -> Result<(), Error> {
        let pod = plugin_runtime::netns_of(&request.netns, request.own_netns_allowed)?;
        let Some(journal) = attachment::find_complete::<RdmaChange>(node, Self::NAME, &request.attachment)?
        else {
            return Err(
                plugin_runtime::Error::from(RdmaError::NoAttachment(request.attachment.clone())).into()
            );
        };
        journal.verify(node)?;
        journal.changes().iter().try_for_each(|change| change.require_in_netns(&pod)).map_err(Into::into)
    }

    fn gc_without_journal(&self, node: &Node, valid: &[Attachment]) -> Result<(), plugin_runtime::Error> {
        orphan_gc::release_devices(node, ClaimKind::Rdma, valid)
    }

    fn status(&self, node: &Node, request: &StatusRequest<'_>) -> Result<(), Error> {
        ExclusiveRdmaRequirement::of(&request.common).map_err(not_available)?;
        conf::written_function(&request.common).map_err(not_available)?;
        conf::allows_pf(&request.common).map_err(not_available)?;
        exclusive_rdma::require_exclusive_mode(node).map(drop).map_err(not_available)
    }
}
