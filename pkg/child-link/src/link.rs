//! The child link, as a change that can be reverted.

use std::{fmt, path::PathBuf, time::Duration};

use cni::AddRequest;
use identifiers::{HardwareAddr, LinkName, MacAddr};
use netns::NetNsId;
use plugin_runtime::{Error, Node, PodNetns, every_other_netns, other_netns};
use rtnl::{Handle, Link, LinkKind};
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::{ChildLinkKind, error::ChildError, recorded_link::RecordedLink};

/// How long DEL waits for a link to return from a namespace that was deleted. The kernel returns it in the background,
/// within 0.1 s if it is idle; before it supported that, it deleted the link.
pub(crate) const HOST_RETURN_TIMEOUT: Duration = Duration::from_secs(2);

/// The change that a link was created in a pod. It is identified by what the pod cannot change: the namespace, its index,
/// which was chosen before it was created, its kind and its parent. The pod may change its name and its MAC address, and
/// another link may take them.
///
/// The link of another attachment may have the index, and the same kind and parent: it took the index first, or this link was
/// deleted. So a link without the original name and MAC address must not be recorded by another attachment.
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
    /// The index of its parent on the host; `None` if the parent is in the pod, and in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<u32>,
    netns: PathBuf,
    netns_id: NetNsId,
}

impl ChildLink {
    /// Returns the link that an ADD will create, with this index, MAC address and parent on the host.
    pub(crate) fn of<K: ChildLinkKind>(
        request: &AddRequest<'_>,
        pod: &PodNetns,
        index: u32,
        mac: Option<MacAddr>,
        parent: Option<u32>,
    ) -> Self {
        Self {
            kind: K::NAME.into(),
            ifname: request.attachment.ifname.clone(),
            index,
            mac,
            address: None,
            parent,
            netns: request.netns.clone(),
            netns_id: pod.id(),
        }
    }

    /// Returns the link with the hardware address that the kernel chose for it.
    pub(crate) fn with_address(&self, address: &HardwareAddr) -> Self {
        Self { address: Some(address.clone()), ..self.clone() }
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
        Ok(self.may_be_without_name_and_mac(link) && self.is_recorded(node, link)?)
    }

    /// Whether a link may be this one although the pod changed its name and its MAC address.
    fn may_be_without_name_and_mac(&self, link: &Link) -> bool {
        match self.parent {
            Some(_) => self.is_on_parent(link),
            // An earlier release recorded no parent.
            None => self.mac.is_none(),
        }
    }

    fn is_on_parent(&self, link: &Link) -> bool {
        self.parent.is_some() && link.parent == self.parent && link.parent_netns.is_some()
    }

    /// Whether this attachment recorded a link with the index as its last one, unless the link has the name or MAC address
    /// that another one recorded. If the pod changed those of a link that two attachments recorded, one after the other, it is
    /// deleted with the first of them: it must not keep the address of either.
    fn is_recorded(&self, node: &Node, link: &Link) -> Result<bool, Error> {
        let mut recorded = RecordedLink::all_in(node, &self.kind, self.netns_id)?;
        recorded.retain(|recorded| recorded.index == link.index);
        let (own, others): (Vec<_>, Vec<_>) =
            recorded.into_iter().partition(|recorded| recorded.ifname == self.ifname);
        Ok(!own.is_empty() && !others.iter().any(|other| other.has_name_or_mac_of(link)))
    }

    /// Deletes the link. If its namespace is gone, so is the link, or it has returned to the host.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        let pod = PodNetns::find(&self.netns, self.netns_id)?;
        if let Some(pod) = &pod
            && let Some(link) = self.find(node, pod)?
        {
            return delete(&pod.links, link.index);
        }
        if self.has_address() && self.delete_in_other_netns(pod.is_some())? {
            return Ok(());
        }
        // The address is unknown only if the ADD was killed right after it had created the link.
        if !self.returns_to_host() || (self.address.is_none() && !node.add_was_interrupted()) {
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

    /// Whether the link can be identified where its index says nothing.
    fn has_address(&self) -> bool {
        self.address.is_some() || self.mac.is_some()
    }

    /// Deletes the link in any namespace in use, if the pod moved it, also there and back again. Returns whether it was
    /// there. While its pod is running, no namespace must be overlooked: an address is not released that a pod may have.
    fn delete_in_other_netns(&self, is_pod_running: bool) -> Result<bool, Error> {
        let others = match every_other_netns()? {
            Err(unknown) if is_pod_running && !unknown.is_not_permitted() => return Err(unknown.into()),
            Err(_) => other_netns()?,
            Ok(others) => others,
        };
        for netns in others {
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
        let has_its_mac = || self.mac.is_some() && link.mac == self.mac && self.is_on_parent(link);
        is_child && (self.has_address_of(link) || has_its_mac())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::link;

    /// The address of an IPoIB link: flags, the number of its queue pair, and a GID.
    fn address(flags: u8, queue_pair: u8, gid: u8) -> HardwareAddr {
        let mut bytes = [0; 20];
        (bytes[0], bytes[3], bytes[19]) = (flags, queue_pair, gid);
        HardwareAddr::from_bytes(&bytes)
    }

    fn ipoib() -> ChildLink {
        ChildLink {
            kind: "ipoib".into(),
            ifname: "net1".parse().unwrap(),
            index: 9,
            mac: None,
            address: Some(address(0x80, 7, 1)),
            parent: Some(3),
            netns: "/run/netns/a".into(),
            netns_id: NetNsId::new(4, 1),
        }
    }

    fn on_host(index: u32, name: &str, parent: Option<u32>, address: HardwareAddr) -> Link {
        Link { kind: Some(LinkKind::Ipoib(None)), parent, address, ..link(index, name) }
    }

    #[test]
    fn an_ipoib_link_is_identified_by_its_parent_and_its_queue_pair() {
        for (link, expected) in [
            (on_host(9, "net1", Some(3), address(0x80, 7, 1)), true),
            // A pod can change its name and the rest of the address; on the host it may have another index.
            (on_host(12, "renamed", Some(3), address(0, 7, 9)), true),
            (on_host(9, "net1", Some(3), address(0x80, 8, 1)), false),
            (on_host(9, "net1", Some(4), address(0x80, 7, 1)), false),
            (on_host(9, "net1", None, address(0x80, 7, 1)), false),
            (Link { kind: None, ..on_host(9, "net1", Some(3), address(0x80, 7, 1)) }, false),
        ] {
            assert_eq!(
                (ipoib().is_on_host(&link), ipoib().is_elsewhere(&link)),
                (expected, expected),
                "{link:?}"
            );
        }
        let in_the_pod = ChildLink { parent: None, ..ipoib() };
        assert!(in_the_pod.is_elsewhere(&on_host(9, "net1", Some(8), address(0x80, 7, 1))));
    }

    #[test]
    fn an_ipoib_link_of_a_killed_add_is_identified_by_its_index_and_its_name() {
        let killed = ChildLink { address: None, parent: None, ..ipoib() };
        for (index, name, expected) in
            [(9, "net1", true), (9, "dev9", true), (9, "dev8", false), (9, "net2", false), (8, "net1", false)]
        {
            let link = on_host(index, name, Some(3), address(0x80, 7, 1));
            assert_eq!(killed.is_on_host(&link), expected, "{index} {name}");
            assert!(!killed.is_elsewhere(&link), "its address is unknown");
        }
        assert!(killed.returns_to_host());
        assert!(!ChildLink { kind: "macvlan".into(), ..killed }.returns_to_host());
    }
}
