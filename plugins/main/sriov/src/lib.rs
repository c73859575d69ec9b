//! `sriov`: moves a VF or a scalable function of a NIC into the pod, configures it, and returns it to its former state.
//!
//! Read [`add`] first. What it has in common with ib-sriov is in [`vf`]: claiming a VF, configuring it through its PF,
//! and moving its link.

#![forbid(unsafe_code)]

mod add;
mod conf;
mod error;
mod go_plugin;
mod vf_settings;

use cni::{AddRequest, AddResult, CallContext, CheckRequest, DelRequest, Error, StatusRequest};
use identifiers::Attachment;
use plugin_runtime::{
    JournaledPlugin, Node, delegate, not_available, policy::ResourceUses, release_unjournaled_addresses,
};
use vf::Change;

pub use go_plugin::GoSriovState;

use self::conf::SriovConf;

/// The sriov plugin.
#[derive(Debug)]
pub struct SriovPlugin;

impl JournaledPlugin for SriovPlugin {
    const NAME: &'static str = conf::NAME;
    type Change = Change;

    fn uses(
        &self,
        _: &Node,
        common: &CallContext<'_>,
        _: Option<&AddRequest<'_>>,
    ) -> Result<ResourceUses, Error> {
        Ok(SriovConf::with_device(common, vf::conf::device(common)?)?.uses())
    }

    fn add(&self, node: &Node, request: &AddRequest<'_>) -> Result<AddResult, Error> {
        add::add(node, request)
    }

    /// The pod may be the Go plugin's. The IPAM plugin's DEL is called in any case: after the link has left the pod, as
    /// addresses must not be released while a link uses them, but before if it needs the link, as `dhcp` does.
    fn del_without_journal(&self, node: &Node, request: &DelRequest<'_>) -> Result<(), Error> {
        let needs_link = delegate::needs_link(&request.common).unwrap_or(false);
        let early = needs_link.then(|| release_unjournaled_addresses(request, node));
        let reverted = go_plugin::revert_go_attachment(request, node);
        early.unwrap_or_else(|| release_unjournaled_addresses(request, node))?;
        Ok(reverted?)
    }

    fn check(&self, node: &Node, request: &CheckRequest<'_>) -> Result<(), Error> {
        let conf = SriovConf::of(&request.common)?;
        vf::check(Self::NAME, node, request, &conf.routing)
    }

    fn gc_without_journal(&self, node: &Node, valid: &[Attachment]) -> Result<(), plugin_runtime::Error> {
        vf::release_orphans(node, valid)
    }

    fn status(&self, node: &Node, request: &StatusRequest<'_>) -> Result<(), Error> {
        let device = vf::conf::device(&request.common).map_err(not_available)?;
        let conf = SriovConf::with_device(&request.common, device).map_err(not_available)?;
        vf::status(node, request, conf.device, conf.isolation.is_some())
    }
}
