//! A pod's link on top of a parent link: what macvlan and ipvlan share.
//!
//! A [`Kind`] says what is its own: which settings it has and how its link is made. [`Child`] is the plugin
//! made of it. Read [`add`] first; what it changes on the node is [`change::Change`], and DEL, CHECK and GC
//! work from the journal that ADD left.
//!
//! In shared RDMA mode the pod uses the RDMA device of its link's parent, and its address becomes a GID of
//! that device: [`sharing`].

#![forbid(unsafe_code)]

mod add;
mod change;
mod check;
mod conf;
mod error;
mod kind;
mod link;
mod parent;
mod ports;
mod sharing;

use cni::{Add, AddResult, Check, Del, Error, Status};
use plugin::{JournaledPlugin, Node, delegate, not_available};

pub use conf::Settings;
pub use kind::Kind;

use self::{change::Change, conf::Conf, parent::Parent, sharing::Sharing};

/// The plugin of a [`Kind`].
#[derive(Debug)]
pub struct Child<K>(pub K);

impl<K: Kind> JournaledPlugin for Child<K> {
    const NAME: &'static str = K::NAME;
    const HAS_ABOUT: bool = true;
    type Change = Change;

    fn add(&self, node: &Node, request: &Add<'_>) -> Result<AddResult, Error> {
        add::add(&self.0, node, request)
    }

    fn del_without_journal(&self, node: &Node, request: &Del<'_>) -> Result<(), Error> {
        let removed = link::remove_unknown::<K>(node, request);
        delegate::del(request, node)?;
        Ok(removed?)
    }

    fn check(&self, node: &Node, request: &Check<'_>) -> Result<(), Error> {
        check::check(&self.0, node, request)
    }

    fn status(&self, node: &Node, request: &Status<'_>) -> Result<(), Error> {
        let conf = Conf::of(&self.0, &request.common)?;
        if !conf.settings.link_in_container {
            let ready = Parent::of_node(node, &conf)
                .and_then(|parent| Sharing::find(node, &parent, conf.settings.rdma).map(drop));
            ready.map_err(not_available)?;
        }
        delegate::status(request, node)
    }
}
