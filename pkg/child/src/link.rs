//! The child link, as a change that can be taken back.

use std::{fmt, path::PathBuf};

use addr::LinkName;
use cni::{Add, Code, Del};
use netns::{NetNs, NetNsId};
use plugin::{Error, Node, Pod, attachment};
use rtnl::{Link, random_index};
use serde::{Deserialize, Serialize};

use crate::Kind;

/// A link was made in a pod. It is known again by its index, which was chosen at random before it was made,
/// in a namespace known by its inode: the pod may rename it, and another link may take its name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChildLink {
    kind: String,
    ifname: LinkName,
    pub(crate) index: u32,
    netns: PathBuf,
    netns_id: NetNsId,
}

impl ChildLink {
    /// The link that an ADD will make.
    pub(crate) fn of<K: Kind>(request: &Add<'_>, pod: &Pod) -> Self {
        Self {
            kind: K::NAME.into(),
            ifname: request.attachment.ifname.clone(),
            index: random_index(),
            netns: request.netns.clone(),
            netns_id: pod.id(),
        }
    }

    /// The link, if it is there.
    fn find(&self, pod: &Pod) -> Result<Option<Link>, Error> {
        let link = pod.links.find_link_by_index(self.index)?;
        Ok(link.filter(|link| link.kind.as_ref().is_some_and(|kind| kind.to_string() == self.kind)))
    }

    /// Deletes the link. With its namespace it is gone already.
    pub(crate) fn revert(&self) -> Result<(), Error> {
        let Some(pod) = Pod::find(&self.netns, self.netns_id)? else { return Ok(()) };
        let Some(link) = self.find(&pod)? else { return Ok(()) };
        delete(&pod, link.index)
    }

    /// Looks whether the link is there under its name.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        let changed = |msg: String| Err(cni::Error::new(Code::CHANGED, msg).into());
        let Some(pod) = Pod::find(&self.netns, self.netns_id)? else {
            return changed(format!("the namespace {} is gone", self.netns.display()));
        };
        match self.find(&pod)? {
            Some(link) if link.name == self.ifname.as_str() => Ok(()),
            Some(link) => changed(format!("{self} is called {} now", link.name)),
            None => changed(format!("{self} is gone")),
        }
    }
}

impl fmt::Display for ChildLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (index {}) in {}", self.kind, self.ifname, self.index, self.netns_id)
    }
}

fn delete(pod: &Pod, index: u32) -> Result<(), Error> {
    match pod.links.delete_link(index) {
        Err(error) if error.is_not_found() => Ok(()),
        deleted => Ok(deleted?),
    }
}

/// Deletes the pod's link of this kind and the attachment's name, which no journal tells of.
///
/// # Errors
/// If it is there and cannot be deleted.
pub(crate) fn remove_unknown<K: Kind>(node: &Node, request: &Del<'_>) -> Result<(), Error> {
    let Some(path) = &request.netns else { return Ok(()) };
    let Ok(netns) = NetNs::open(path) else { return Ok(()) };
    let ifname = &request.attachment.ifname;
    // The path may have come to mean the node's own, where a link of that name is somebody else's.
    if !request.own_netns_allowed && netns.id() == NetNs::current()?.id() {
        return Ok(());
    }
    let netns = netns.identified()?;
    // Or another pod's by now, whose own DEL will come.
    if attachment::holder(node, K::NAME, ifname, netns.id())?.is_some() {
        return Ok(());
    }
    let Some(pod) = Pod::find(path, netns.id())? else { return Ok(()) };
    match pod.links.find_link(ifname)? {
        Some(link) if K::is(&link) => delete(&pod, link.index),
        _ => Ok(()),
    }
}
