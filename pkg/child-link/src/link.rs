//! The child link, as a change that can be reverted.

use std::{fmt, path::PathBuf};

use cni::{AddRequest, DelRequest};
use identifiers::{LinkName, MacAddr};
use netns::{NetNs, NetNsId};
use plugin_runtime::{Error, Node, PodNetns, attachment};
use rtnl::Link;
use serde::{Deserialize, Serialize};

use crate::{ChildLinkKind, error::ChildError};

/// The change that a link was created in a pod. It is identified by its index, which was chosen before it was created, and
/// by the inode of the namespace, because the pod may rename it and another link may take its name.
///
/// Another link may also have the index: it took the index first, or was created after this one was deleted. So the link
/// must also have its original name or MAC address. If a pod changed both, DEL does not delete the link.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildLink {
    kind: String,
    ifname: LinkName,
    pub(crate) index: u32,
    /// Its MAC address at creation; `None` if it has its parent's, and in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mac: Option<MacAddr>,
    netns: PathBuf,
    netns_id: NetNsId,
}

impl ChildLink {
    /// Returns the link that an ADD will create, with this index and MAC address.
    pub(crate) fn of<K: ChildLinkKind>(
        request: &AddRequest<'_>,
        pod: &PodNetns,
        index: u32,
        mac: Option<MacAddr>,
    ) -> Self {
        Self {
            kind: K::NAME.into(),
            ifname: request.attachment.ifname.clone(),
            index,
            mac,
            netns: request.netns.clone(),
            netns_id: pod.id(),
        }
    }

    /// Returns the link, if it exists.
    fn find(&self, node: &Node, pod: &PodNetns) -> Result<Option<Link>, Error> {
        match pod.links.find_link_by_index(self.index)? {
            Some(link) if self.has_link_kind(&link) && self.is_same_link(node, &link)? => Ok(Some(link)),
            _ => Ok(None),
        }
    }

    fn has_link_kind(&self, link: &Link) -> bool {
        link.kind.as_ref().is_some_and(|kind| kind.to_string() == self.kind)
    }

    /// Whether the link that has the index is this one.
    fn is_same_link(&self, node: &Node, link: &Link) -> Result<bool, Error> {
        if link.name == self.ifname.as_str() || (self.mac.is_some() && link.mac == self.mac) {
            return Ok(true);
        }
        // A link without a MAC address of its own may have any name that is not another attachment's.
        match link.name.parse() {
            Ok(name) if self.mac.is_none() => {
                Ok(attachment::find_holder(node, &self.kind, &name, self.netns_id)?.is_none())
            }
            _ => Ok(false),
        }
    }

    /// Deletes the link. If its namespace is gone, so is the link.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        let Some(pod) = PodNetns::find(&self.netns, self.netns_id)? else { return Ok(()) };
        let Some(link) = self.find(node, &pod)? else { return Ok(()) };
        delete(&pod, link.index)
    }

    /// Checks that the link exists and has its name.
    pub(crate) fn verify(&self, node: &Node) -> Result<(), Error> {
        let Some(pod) = PodNetns::find(&self.netns, self.netns_id)? else {
            return Err(ChildError::NamespaceGone(self.netns.clone()).into());
        };
        match self.find(node, &pod)? {
            Some(link) if link.name == self.ifname.as_str() => return Ok(()),
            Some(link) => return Err(ChildError::Renamed { link: self.to_string(), name: link.name }.into()),
            None => {}
        }
        // Another link took the index first, and this one was created with the next, which is in the journal too.
        match pod.links.find_link(&self.ifname)? {
            Some(link) if self.has_link_kind(&link) && (self.mac.is_none() || link.mac == self.mac) => Ok(()),
            _ => Err(ChildError::NotedGone(self.to_string()).into()),
        }
    }
}

impl fmt::Display for ChildLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (index {}) in {}", self.kind, self.ifname, self.index, self.netns_id)
    }
}

fn delete(pod: &PodNetns, index: u32) -> Result<(), Error> {
    match pod.links.delete_link(index) {
        Err(error) if error.is_not_found() => Ok(()),
        deleted => Ok(deleted?),
    }
}

/// Deletes the pod's link of this kind and the attachment's name, without a journal.
///
/// # Errors
/// If it exists and cannot be deleted.
pub(crate) fn delete_unjournaled<K: ChildLinkKind>(
    node: &Node,
    request: &DelRequest<'_>,
) -> Result<(), Error> {
    let Some(path) = &request.netns else { return Ok(()) };
    let Ok(netns) = NetNs::open(path) else { return Ok(()) };
    let ifname = &request.attachment.ifname;
    // The path may now refer to the node's own namespace, where a link of that name is not the pod's.
    if !request.own_netns_allowed && netns.id() == NetNs::current()?.id() {
        return Ok(());
    }
    let netns = netns.identified()?;
    // Or to another pod's, which will have a DEL of its own.
    if attachment::find_holder(node, K::NAME, ifname, netns.id())?.is_some() {
        return Ok(());
    }
    let Some(pod) = PodNetns::find(path, netns.id())? else { return Ok(()) };
    match pod.links.find_link(ifname)? {
        Some(link) if K::is(&link) => delete(&pod, link.index),
        _ => Ok(()),
    }
}
