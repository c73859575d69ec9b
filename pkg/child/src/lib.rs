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
mod kind;
mod link;
mod parent;
mod ports;
mod sharing;

use std::path::PathBuf;

use addr::Attachment;
use cni::{Add, AddResult, Check, Del, Error, Gc, Plugin, Status};
use journal::Content;
use plugin::{
    Journaled, Node, State,
    attachment::{self, NodeChange},
    delegate, log,
};

pub use conf::Settings;
pub use kind::Kind;

use self::{change::Change, conf::Conf, parent::Parent, sharing::Sharing};

/// The plugin of a [`Kind`].
pub struct Child<K> {
    kind: K,
    builtin_ipam: &'static dyn Plugin,
}

impl<K: Kind> Child<K> {
    /// The plugin of `kind`; `builtin_ipam` is called in-process where a configuration means it.
    pub const fn new(kind: K, builtin_ipam: &'static dyn Plugin) -> Self {
        Self { kind, builtin_ipam }
    }
}

/// What a journal of any such plugin says.
///
/// # Errors
/// What is wrong with it.
pub fn read_journal(bytes: &[u8]) -> Result<Content<impl NodeChange + use<>>, String> {
    Content::<Change>::parse(bytes)
}

impl<K: Kind> Plugin for Child<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn about(&self) -> Option<String> {
        Some(format!("CNI {} plugin {} (silkrail)", K::NAME, env!("CARGO_PKG_VERSION")))
    }

    fn add(&self, request: &Add<'_>) -> Result<AddResult, Error> {
        log::configure(&request.common, log::about(&request.attachment, Some(&request.netns)))?;
        add::add(&self.kind, request, self.builtin_ipam)
    }

    fn del(&self, request: &Del<'_>) -> Result<(), Error> {
        // A DEL never fails because of how it should log.
        let _ = log::configure(&request.common, log::about(&request.attachment, request.netns.as_deref()));
        let node = Node::of(&request.common, self.builtin_ipam)?;
        if attachment::take_back::<Change>(&node, K::NAME, &request.attachment)? {
            return Ok(());
        }
        // An attachment of the Go plugin, or one whose journal is lost.
        let removed = link::remove_unknown::<K>(&node, request);
        delegate::del(request, &node)?;
        Ok(removed?)
    }

    fn check(&self, request: &Check<'_>) -> Result<(), Error> {
        log::configure(&request.common, log::about(&request.attachment, Some(&request.netns)))?;
        check::check(&self.kind, request, self.builtin_ipam)
    }

    fn gc(&self, request: &Gc<'_>) -> Result<(), Error> {
        // Nor does a GC.
        let _ = log::configure(&request.common, String::new());
        let node = Node::of(&request.common, self.builtin_ipam)?;
        let collected = attachment::collect::<Change>(&node, self, &request.common, &request.valid);
        let kept = attachment::of_network(&node, self, &request.common.conf.name)?;
        delegate::gc(request, &kept, &node)?;
        Ok(collected?)
    }

    fn status(&self, request: &Status<'_>) -> Result<(), Error> {
        log::configure(&request.common, String::new())?;
        let conf = Conf::of(&self.kind, &request.common)?;
        let node = Node::of(&request.common, self.builtin_ipam)?;
        if !conf.settings.link_in_container {
            let ready = Parent::of_node(&node, &conf)
                .and_then(|parent| Sharing::find(&node, &parent, conf.settings.rdma).map(drop));
            ready.map_err(|e| Error { code: cni::Code::NOT_AVAILABLE, ..e.into() })?;
        }
        delegate::status(request, &node)
    }
}

impl<K: Kind> Journaled for Child<K> {
    fn take_back(
        &self,
        state: State,
        cni_path: Vec<PathBuf>,
        attachment: &Attachment,
        inode: u64,
    ) -> Result<(), plugin::Error> {
        let node = Node::new(state, cni_path, self.builtin_ipam);
        attachment::take_back_judged::<Change>(&node, K::NAME, attachment, inode)
    }
}

impl<K> std::fmt::Debug for Child<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Child")
    }
}
