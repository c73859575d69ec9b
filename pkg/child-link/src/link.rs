//! The child link, as a change that can be reverted.

use std::{fmt, path::PathBuf, time::Duration};

use cni::AddRequest;
use identifiers::{HardwareAddr, LinkName, MacAddr};
use netns::NetNsId;
use plugin_runtime::{Error, Node, PodNetns, attachment, other_netns};
use rtnl::{Handle, Link, LinkKind};
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::{ChildLinkKind, error::ChildError};

/// How long DEL waits for a link to return from a namespace that was deleted. The kernel returns it in the background,
/// within 0.1 s if it is idle; before it supported that, it deleted the link.
pub(crate) const HOST_RETURN_TIMEOUT: Duration = Duration::from_secs(2);

/// The change that a link was created in a pod. It is identified by its index, which was chosen before it was created, and
/// by the inode of the namespace, because the pod may rename it and another link may take its name.
///
/// Another link may also have the index: it took the index first, or was created after this one was deleted. So the link
/// must also have its original name or MAC address. If a pod changed both, DEL does not delete the link.
///
/// # Kernel
/// An IPoIB link does not end with its namespace: the kernel moves it to the host (`netns_refund`). There it is identified by
/// its parent and the number of its queue pair, which its hardware address contains. A pod can change other parts of that.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildLink {
    kind: String,
    ifname: LinkName,
    pub(crate) index: u32,
    /// Its MAC address at creation; `None` if it has its parent's, and in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mac: Option<MacAddr>,
    /// The hardware address that the kernel chose for an IPoIB link; known once it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<HardwareAddr>,
    /// The index of an IPoIB link's parent on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<u32>,
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
            address: None,
            parent: None,
            netns: request.netns.clone(),
            netns_id: pod.id(),
        }
    }

    /// Returns the link with the hardware address that the kernel chose for it, and the index of its parent on the host.
    pub(crate) fn with_address(&self, address: &HardwareAddr, parent: Option<u32>) -> Self {
        Self { address: Some(address.clone()), parent, ..self.clone() }
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
        if let Some(address) = &self.address {
            return Ok(queue_pair(address) == queue_pair(&link.address));
        }
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

    /// Deletes the link. If its namespace is gone, so is the link, or it has returned to the host.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        let pod = PodNetns::find(&self.netns, self.netns_id)?;
        if let Some(pod) = &pod
            && let Some(link) = self.find(node, pod)?
        {
            return delete(&pod.links, link.index);
        }
        // The address is unknown only if the ADD was killed right after it had created the link.
        if !self.returns_to_host() || (self.address.is_none() && !node.add_was_interrupted()) {
            return Ok(());
        }
        if self.delete_in_other_netns()? {
            return Ok(());
        }
        let timeout = if pod.is_none() { HOST_RETURN_TIMEOUT } else { Duration::ZERO };
        match wait_on_host(node, timeout, |links| self.find_on_host(links))? {
            Some(link) => {
                info!(link = %link.name, "deleting the pod's link, which the kernel moved to the host");
                delete(node.links()?, link.index)
            }
            None => Ok(()),
        }
    }

    /// Deletes the link in any namespace in use, if the pod moved it. Returns whether it was there.
    fn delete_in_other_netns(&self) -> Result<bool, Error> {
        for netns in other_netns()? {
            // If the namespace ends meanwhile, the kernel moves the link to the host.
            let Ok(pod) = PodNetns::of(netns) else { continue };
            let links = pod.links.links().unwrap_or_default();
            if let Some(link) = links.iter().find(|link| self.is_elsewhere(link)) {
                info!(link = %link.name, netns = %pod.id(), "deleting the pod's link, which it moved to another namespace");
                return delete(&pod.links, link.index).map(|()| true);
            }
        }
        Ok(false)
    }

    /// Whether a link in a namespace that is not the host's is this one, under another index.
    fn is_elsewhere(&self, link: &Link) -> bool {
        let is_child = !link.is_ipoib_port() && self.has_link_kind(link);
        is_child && self.has_address_of(link)
    }

    fn has_address_of(&self, link: &Link) -> bool {
        let is_on_parent = self.parent.is_none_or(|parent| link.parent == Some(parent));
        is_on_parent && self.address.as_ref().is_some_and(|own| queue_pair(own) == queue_pair(&link.address))
    }

    fn returns_to_host(&self) -> bool {
        self.kind == LinkKind::Ipoib(None).to_string()
    }

    fn find_on_host(&self, links: &Handle) -> Result<Option<Link>, Error> {
        let by_index = links.find_link_by_index(self.index)?.filter(|link| self.is_on_host(link));
        match by_index {
            None => Ok(links.links()?.into_iter().find(|link| self.is_on_host(link))),
            link => Ok(link),
        }
    }

    /// Whether a link on the host is this one. The kernel keeps its name, or uses its index as in `dev7`.
    fn is_on_host(&self, link: &Link) -> bool {
        let has_its_name = || link.name == self.ifname.as_str() || link.name == format!("dev{}", self.index);
        let is_same = match &self.address {
            Some(_) => self.has_address_of(link),
            None => link.index == self.index && has_its_name(),
        };
        self.has_link_kind(link) && link.parent.is_some() && is_same
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

/// Returns the number of the queue pair in an IPoIB link's address: 24 bits after a byte of flags (RFC 4391).
fn queue_pair(address: &HardwareAddr) -> Option<&[u8]> {
    address.bytes().get(1..4)
}

/// Waits until `find` finds the link that the kernel moves to the host; `None` if it does not within `timeout`.
pub(crate) fn wait_on_host(
    node: &Node,
    timeout: Duration,
    find: impl Fn(&Handle) -> Result<Option<Link>, Error>,
) -> Result<Option<Link>, Error> {
    let wait = |source| Error::Wait { what: "a link to return to the host", source };
    let events = rtnl::events(false).map_err(wait)?;
    let deadline = node.budget.until("a link to return to the host", timeout);
    loop {
        let link = find(node.links()?)?;
        if link.is_some() || deadline.has_passed() {
            return Ok(link);
        }
        events.wait(deadline.at(), Duration::from_millis(100)).map_err(wait)?;
    }
}

pub(crate) fn delete(links: &Handle, index: u32) -> Result<(), Error> {
    match links.delete_link(index) {
        Err(error) if error.is_not_found() => Ok(()),
        deleted => Ok(deleted?),
    }
}
