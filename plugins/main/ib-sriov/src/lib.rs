//! `ib-sriov`: moves an InfiniBand VF with its IPoIB link into the pod, and returns it to its former state.
//!
//! Read [`add`] first. What it has in common with sriov is in [`vf`]. Its own is the order of the
//! moves: when the VF's RDMA device moves to the pod, the kernel deletes its IPoIB link and creates another one, on
//! the host or in the pod. On the host, it is moved then.

#![forbid(unsafe_code)]

mod add;
mod conf;
mod error;
mod go_plugin;
mod passthrough;

use cni::{AddRequest, AddResult, CallContext, CheckRequest, DelRequest, Error, StatusRequest};
use identifiers::{Attachment, PciAddress};
use plugin_runtime::{
    JournaledPlugin, Node, delegate, not_available,
    policy::{Resource, ResourceUses},
    release_unjournaled_addresses,
};
use sysfs::Function;
use vf::Change;

pub use go_plugin::GoIbSriovState;

use self::conf::IbSriovConf;

/// The ib-sriov plugin.
#[derive(Debug)]
pub struct IbSriovPlugin;

impl JournaledPlugin for IbSriovPlugin {
    const NAME: &'static str = conf::NAME;
    type Change = Change;

    fn uses(
        &self,
        _: &Node,
        common: &CallContext<'_>,
        _: Option<&AddRequest<'_>>,
    ) -> Result<ResourceUses, Error> {
        let conf = IbSriovConf::with_device(common, vf::conf::device::<PciAddress>(common)?)?;
        let mut uses = ResourceUses::default();
        uses.add_some(Resource::Device, conf.device);
        uses.add_some(Resource::Guid, conf.guid);
        uses.add_some(Resource::LinkState, conf.link_state.map(vf::conf::link_state_text));
        Ok(uses)
    }

    fn add(&self, node: &Node, request: &AddRequest<'_>) -> Result<AddResult, Error> {
        add::add(node, request)
    }

    /// The pod may be the Go plugin's. The IPAM plugin's DEL is called in any case, after the link has left the pod.
    fn del_without_journal(&self, node: &Node, request: &DelRequest<'_>) -> Result<(), Error> {
        let reverted = go_plugin::revert_go_attachment(request, node);
        // An ADD with dhcp is refused, and that plugin may not be installed.
        if !delegate::needs_link(&request.common).unwrap_or(false) {
            release_unjournaled_addresses(request, node)?;
        }
        Ok(reverted?)
    }

    fn check(&self, node: &Node, request: &CheckRequest<'_>) -> Result<(), Error> {
        let conf = IbSriovConf::of(&request.common)?;
        vf::check(Self::NAME, node, request, &conf.routing)
    }

    fn gc_without_journal(&self, node: &Node, valid: &[Attachment]) -> Result<(), plugin_runtime::Error> {
        vf::release_orphans(node, valid)
    }

    fn status(&self, node: &Node, request: &StatusRequest<'_>) -> Result<(), Error> {
        let device = vf::conf::device::<PciAddress>(&request.common).map_err(not_available)?;
        let conf = IbSriovConf::with_device(&request.common, device).map_err(not_available)?;
        vf::status(node, request, conf.device.map(Function::Pci), conf.isolation.is_some())
    }
}
