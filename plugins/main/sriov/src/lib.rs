//! `sriov`: a VF of a NIC into the pod, configured, and back as it was.
//!
//! Read [`add`] first. A VF is claimed ([`plugin::claim`]), so that nobody else takes it and a late DEL knows that
//! it is not its own any more; configured through its PF ([`settings`]); and moved into the pod
//! ([`link_move`]). Each of these is a change that can be taken back, wherever the VF is by then: in the pod,
//! on its way home from a namespace that died, or at home under a strange name.

#![forbid(unsafe_code)]

mod add;
mod announce;
mod change;
mod check;
mod conf;
mod frame;
mod home;
mod legacy;
mod link_move;
mod link_settings;
mod mac;
mod settings;
mod vf;

use std::path::PathBuf;

use addr::Attachment;
use cni::{Add, AddResult, Check, Code, Del, Error, Gc, Plugin, Status};
use journal::Content;
use plugin::{
    Journaled, Node, State,
    attachment::{self, NodeChange},
    claim::Part,
    delegate, log, lost,
};

pub use legacy::Noted;

use self::{change::Change, conf::Conf, vf::Vf};

/// The sriov plugin.
pub struct Sriov {
    builtin_ipam: &'static dyn Plugin,
}

const NAME: &str = "sriov";

impl Sriov {
    /// The plugin; `builtin_ipam` is called in-process where a configuration means it.
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

impl Plugin for Sriov {
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
        self.del_without_journal(request, &node)
    }

    fn check(&self, request: &Check<'_>) -> Result<(), Error> {
        log::configure(&request.common, log::about(&request.attachment, Some(&request.netns)))?;
        check::check(request, self.builtin_ipam)
    }

    fn gc(&self, request: &Gc<'_>) -> Result<(), Error> {
        // Nor does a GC.
        let _ = log::configure(&request.common, String::new());
        let node = Node::of(&request.common, self.builtin_ipam)?;
        let collected = attachment::collect::<Change>(&node, self, &request.common, &request.valid);
        let released = lost::collect_devices(&node.state, Part::Vf, &request.valid);
        let isolated = lost::collect_devices(&node.state, Part::Rdma, &request.valid);
        let kept = attachment::of_network(&node, self, &request.common.conf.name)?;
        delegate::gc(request, &kept, &node)?;
        Ok(collected.and(released).and(isolated)?)
    }

    fn status(&self, request: &Status<'_>) -> Result<(), Error> {
        log::configure(&request.common, String::new())?;
        let node = Node::of(&request.common, self.builtin_ipam)?;
        let unavailable = |e: Error| Error { code: Code::NOT_AVAILABLE, ..e };
        let device = Conf::device(&request.common).map_err(unavailable)?;
        if Conf::isolation(&request.common).map_err(unavailable)?.is_some() {
            exclusive::in_exclusive_mode(&node).map_err(|e| unavailable(e.into()))?;
        }
        delegate::status(request, &node)?;
        // Which VF is the device plugin's decision; without a fixed one there must be any.
        let there = device.map_or_else(|| Vf::any_exists(&node), |pci| Vf::exists(&node, pci).map(drop));
        there.map_err(|e| unavailable(e.into()))
    }
}

impl Sriov {
    /// The pod may be the Go plugin's; if it is nobody's, the IPAM plugin is told all the same. As in ADD,
    /// addresses are free only when nobody answers to them any more, but a dhcp client needs the link.
    fn del_without_journal(&self, request: &Del<'_>, node: &Node) -> Result<(), Error> {
        let needs_link = delegate::needs_link(&request.common).unwrap_or(false);
        let early = needs_link.then(|| delegate::del(request, node));
        let taken_back = legacy::take_back(request, node);
        early.unwrap_or_else(|| delegate::del(request, node))?;
        Ok(taken_back?)
    }
}

impl Journaled for Sriov {
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

impl std::fmt::Debug for Sriov {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sriov")
    }
}
