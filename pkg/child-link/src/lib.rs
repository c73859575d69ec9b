//! A pod's link on top of a parent link: the common part of macvlan and ipvlan.
//!
//! A [`ChildLinkKind`] implements the settings of one kind and the request that creates its link; [`ChildLinkPlugin`] is
//! its plugin. Read [`add`] first. Its changes on the node are in [`change::Change`]; DEL, CHECK and GC use the journal
//! that ADD wrote.
//!
//! In shared RDMA mode the pod uses the RDMA device of its link's parent, and its address becomes a GID of
//! that device: [`sharing`].

#![forbid(unsafe_code)]

mod add;
mod change;
mod check;
mod conf;
mod error;
#[cfg(test)]
mod fixture;
mod link;
mod link_kind;
mod parent;
mod ports;
mod recorded_link;
mod sharing;
mod unjournaled;

use cni::{AddRequest, AddResult, CallContext, CheckRequest, DelRequest, Error, StatusRequest};
use plugin_runtime::{
    JournaledPlugin, Node, delegate, not_available,
    policy::{self, Resource, ResourceUses},
    release_unjournaled_addresses,
};
use rtnl::LinkLayer;

pub use conf::ParentConf;
pub use link_kind::ChildLinkKind;

use self::{change::Change, conf::ChildLinkConf, parent::Parent, sharing::SharedPorts};

/// The plugin of a [`ChildLinkKind`].
#[derive(Debug)]
pub struct ChildLinkPlugin<K>(pub K);

impl<K: ChildLinkKind> JournaledPlugin for ChildLinkPlugin<K> {
    const NAME: &'static str = K::NAME;
    const HAS_ABOUT: bool = true;
    type Change = Change;

    /// A parent in the pod is not one of the node.
    fn uses(
        &self,
        node: &Node,
        common: &CallContext<'_>,
        _: Option<&AddRequest<'_>>,
    ) -> Result<ResourceUses, Error> {
        let conf = ChildLinkConf::of(&self.0, common)?.or_chained_master()?;
        let mut uses = ResourceUses::default();
        // The runtime sets the result of the plugin before it, but for the first one the author of the network can.
        let is_chained = common.conf.ipam_type()?.is_none() && conf.has_chained_addresses();
        uses.add_some(Resource::Pool, is_chained.then_some(Resource::PREVIOUS_RESULT));
        if !conf.settings.link_in_container {
            let parent = Parent::of_node(&self.0, node, &conf)?;
            policy::add_master(&mut uses, node.links()?, &parent.link)?;
            K::add_uses(&conf.mode, &mut uses);
            uses.add_some(Resource::Mac, conf.mac);
        }
        Ok(uses)
    }

    fn add(&self, node: &Node, request: &AddRequest<'_>) -> Result<AddResult, Error> {
        add::add(&self.0, node, request)
    }

    fn del_without_journal(&self, node: &Node, request: &DelRequest<'_>) -> Result<(), Error> {
        let removed = unjournaled::delete_unjournaled::<K>(node, request);
        // An ADD with dhcp is refused on InfiniBand, and that plugin may not be installed.
        if K::LAYER == LinkLayer::Ethernet || !delegate::needs_link(&request.common).unwrap_or(false) {
            release_unjournaled_addresses(request, node)?;
        }
        Ok(removed?)
    }

    fn check(&self, node: &Node, request: &CheckRequest<'_>) -> Result<(), Error> {
        check::check(&self.0, node, request)
    }

    fn status(&self, node: &Node, request: &StatusRequest<'_>) -> Result<(), Error> {
        let conf = ChildLinkConf::of(&self.0, &request.common)?;
        // The addresses of a chained link may come from the plugin before it.
        if !K::CHAINED {
            conf.require_addresses(&request.common)?;
        }
        if !conf.settings.link_in_container {
            let ready = Parent::of_node(&self.0, node, &conf)
                .and_then(|parent| SharedPorts::find(node, &parent, conf.settings.rdma).map(drop));
            ready.map_err(not_available)?;
        }
        delegate::status(request, node)
    }
}
