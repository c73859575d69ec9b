//! `rdma`: the RDMA device of the chain's function into the pod, and back.
//!
//! It follows `sriov` in a chain, in exclusive RDMA mode. Read [`add`] first; what it changes on the node is
//! [`exclusive::Change`].

#![forbid(unsafe_code)]

mod add;
mod conf;
mod legacy;

use std::path::PathBuf;

use addr::Attachment;
use cni::{Add, AddResult, Check, Code, Del, Error, Gc, Plugin, Status};
use exclusive::Change;
use journal::Content;
pub use legacy::Noted;
use plugin::{
    Journaled, Node, State,
    attachment::{self, NodeChange},
    claim::Part,
    log, lost,
};

/// The rdma plugin.
pub struct Rdma {
    builtin_ipam: &'static dyn Plugin,
}

const NAME: &str = exclusive::PLUGIN;

impl Rdma {
    /// The plugin. It calls no IPAM plugin.
    pub const fn new(builtin_ipam: &'static dyn Plugin) -> Self {
        Self { builtin_ipam }
    }
}

/// What a journal of this plugin says.
///
/// # Errors
/// What is wrong with it.
pub fn read_journal(bytes: &[u8]) -> Result<Content<impl NodeChange + use<>>, String> {
    Content::<Change>::parse(bytes)
}

impl Plugin for Rdma {
    fn name(&self) -> &'static str {
        NAME
    }

    fn add(&self, request: &Add<'_>) -> Result<AddResult, Error> {
        log::configure(&request.common, log::about(&request.attachment, Some(&request.netns)))?;
        add::add(request, self.builtin_ipam)
    }

    fn del(&self, request: &Del<'_>) -> Result<(), Error> {
        // A DEL never fails because of how it should log.
        let _ = log::configure(&request.common, log::about(&request.attachment, request.netns.as_deref()));
        let node = Node::of(&request.common, self.builtin_ipam)?;
        if attachment::take_back::<Change>(&node, NAME, &request.attachment)? {
            return Ok(());
        }
        Ok(legacy::take_back(request, &node)?)
    }

    fn check(&self, request: &Check<'_>) -> Result<(), Error> {
        log::configure(&request.common, log::about(&request.attachment, Some(&request.netns)))?;
        let node = Node::of(&request.common, self.builtin_ipam)?;
        let pod = plugin::netns_of(&request.netns, request.own_netns_allowed)?;
        let Some(journal) = attachment::find::<Change>(&node, NAME, &request.attachment)? else {
            let msg = format!("attachment {} has no RDMA device", request.attachment);
            return Err(Error::new(Code::CHANGED, msg));
        };
        journal.verify(&node)?;
        journal.changes().iter().try_for_each(|change| change.is_in(&pod)).map_err(Into::into)
    }

    fn gc(&self, request: &Gc<'_>) -> Result<(), Error> {
        // Nor does a GC.
        let _ = log::configure(&request.common, String::new());
        let node = Node::of(&request.common, self.builtin_ipam)?;
        let collected = attachment::collect::<Change>(&node, self, &request.common, &request.valid);
        let released = lost::collect_devices(&node.state, Part::Rdma, &request.valid);
        Ok(collected.and(released)?)
    }

    fn status(&self, request: &Status<'_>) -> Result<(), Error> {
        log::configure(&request.common, String::new())?;
        let node = Node::of(&request.common, self.builtin_ipam)?;
        let unavailable = |e: plugin::Error| Error { code: Code::NOT_AVAILABLE, ..e.into() };
        exclusive::in_exclusive_mode(&node).map(drop).map_err(unavailable)
    }
}

impl Journaled for Rdma {
    fn take_back(
        &self,
        state: State,
        cni_path: Vec<PathBuf>,
        attachment: &Attachment,
        inode: u64,
    ) -> Result<(), plugin::Error> {
        let node = Node::new(state, cni_path, self.builtin_ipam);
        attachment::take_back_judged::<Change>(&node, NAME, attachment, inode)
    }
}

impl std::fmt::Debug for Rdma {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rdma")
    }
}
