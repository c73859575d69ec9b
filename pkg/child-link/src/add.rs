//! ADD of a child link.

use std::os::fd::AsFd;

use cni::{AddRequest, AddResult, ResultInterface};
use identifiers::MacAddr;
use journal::Journal;
use plugin_runtime::{
    Error, Node, PodNetns,
    attachment::{self, JournalSpec},
    delegate::{self, DelegateAdd},
    pod_map_entry::{self, PodMapWrite},
};
use rtnl::{Handle, Link, LinkLayer, NewLink, indexes_above};

use crate::{
    ChildLinkKind, change::Change, conf::ChildLinkConf, error::ChildError, link::ChildLink, parent::Parent,
    sharing::SharedPorts,
};

/// Creates a pod's link with its addresses and routes, and returns the CNI result.
pub(crate) fn add<K: ChildLinkKind>(
    kind: &K,
    node: &Node,
    request: &AddRequest<'_>,
) -> Result<AddResult, cni::Error> {
    let conf = ChildLinkConf::of(kind, &request.common)?.or_chained_master()?;
    conf.require_addresses(&request.common)?;
    let pod = PodNetns::open(&request.netns, request.own_netns_allowed)?;
    let parent = Parent::find(kind, node, &pod, &conf)?;
    let sharing = sharing(node, &parent, &conf)?;

    let journal = attachment::begin(node, &JournalSpec::of(K::NAME, request, &pod))?;
    let addition = PreparedAdd { kind, request, conf: &conf, node, pod: &pod, parent: &parent };
    attachment::run_or_revert(journal, node, |journal| addition.attach(journal, sharing.as_ref()))
}

/// Returns the RDMA ports that the pod shares. A parent in the pod has none, even if a link of the node has its name.
fn sharing<K: ChildLinkKind>(
    node: &Node,
    parent: &Parent,
    conf: &ChildLinkConf<K>,
) -> Result<Option<SharedPorts>, Error> {
    if conf.settings.link_in_container {
        return Ok(None);
    }
    SharedPorts::find(node, parent, conf.settings.rdma)
}

/// An ADD whose preconditions were checked.
struct PreparedAdd<'a, 'r, K: ChildLinkKind> {
    kind: &'a K,
    request: &'a AddRequest<'r>,
    conf: &'a ChildLinkConf<K>,
    node: &'a Node,
    pod: &'a PodNetns,
    parent: &'a Parent,
}

impl<K: ChildLinkKind> PreparedAdd<'_, '_, K> {
    fn attach(
        &self,
        journal: &mut Journal<Change>,
        sharing: Option<&SharedPorts>,
    ) -> Result<AddResult, Error> {
        let highest = self.pod.require_name_free(&self.request.attachment.ifname)?;
        let (link, mut result) = if delegate::needs_link(&self.request.common)? {
            (self.link(journal, highest)?, self.addresses(journal)?)
        } else {
            let result = self.addresses(journal)?;
            (self.link(journal, highest)?, result)
        };
        self.complete(&link, &mut result);
        self.conf.routing.configure(journal, self.request, self.pod, &link, &mut result)?;
        self.publish(journal, sharing, &result)?;
        Ok(result)
    }

    /// Returns the addresses: of the IPAM plugin, or of the chain's `prevResult`.
    fn addresses(&self, journal: &mut Journal<Change>) -> Result<AddResult, Error> {
        match DelegateAdd::of(self.request)? {
            Some(call) => journal
                .record_and_apply(Change::Delegated(call), |_| Ok(delegate::add(self.request, self.node)?)),
            None => Ok(self.conf.chained.clone().unwrap_or_default()),
        }
    }

    /// Creates the link, with an index above those of the pod: some software uses the first link of the pod.
    fn link(&self, journal: &mut Journal<Change>, highest: u32) -> Result<Link, Error> {
        let mac = self.conf.mac.or_else(|| K::has_own_mac(&self.conf.mode).then(MacAddr::random));
        let parents =
            if self.conf.settings.link_in_container { &self.pod.links } else { self.node.links()? };
        let host_parent = Some(self.parent.link.index).filter(|_| !self.conf.settings.link_in_container);
        let ifname = &self.request.attachment.ifname;
        let has = |links: &Handle, index| Ok::<_, Error>(links.find_link_by_index(index)?.is_some());
        let mut refused = None;
        for index in indexes_above(highest) {
            // Kernels before 6.15 refuse an index that a link in the parent's namespace has.
            if has(parents, index)? || (index <= highest && has(&self.pod.links, index)?) {
                continue;
            }
            let mtu = self.parent.mtu(self.conf)?;
            let change = ChildLink::of::<K>(self.request, self.pod, index, mac, host_parent);
            match journal.record_and_apply(Change::Link(change.clone()), |_| {
                Ok::<_, Error>(self.create(parents, index, mtu, mac))
            })? {
                Ok(()) if K::LAYER == LinkLayer::InfiniBand => {
                    return self.complete_ipoib(journal, &change, mtu);
                }
                Ok(()) => return Ok(self.pod.links.link_by_index(index)?),
                // Another link took the index or name in between, and may be gone again by now.
                Err(error) if has(&self.pod.links, index)? || has(parents, index)? => refused = Some(error),
                Err(error) if error.is_exists() && self.pod.links.find_link(ifname)?.is_none() => {
                    refused = Some(error);
                }
                Err(error) => return Err(self.parent.explain::<K>(parents, error)),
            }
        }
        match refused {
            Some(error) => Err(error.into()),
            None => Err(ChildError::NoIndex.into()),
        }
    }

    /// Records the address that the kernel chose for an IPoIB link, and sets its MTU, which the kernel ignores in the
    /// message that creates the link. The default is the parent's.
    fn complete_ipoib(
        &self,
        journal: &mut Journal<Change>,
        created: &ChildLink,
        mtu: Option<u32>,
    ) -> Result<Link, Error> {
        let link = self.pod.links.link_by_index(created.index)?;
        journal.record(Change::Link(created.with_address(&link.address)))?;
        let mtu = mtu.unwrap_or(self.parent.link.mtu);
        if mtu == link.mtu {
            return Ok(link);
        }
        self.pod.links.set_mtu(link.index, mtu).map_err(|error| self.parent.explain_mtu(mtu, error))?;
        Ok(self.pod.links.link_by_index(link.index)?)
    }

    fn create(
        &self,
        parents: &Handle,
        index: u32,
        mtu: Option<u32>,
        mac: Option<MacAddr>,
    ) -> Result<(), rtnl::Error> {
        let name = &self.request.attachment.ifname;
        let message = self.kind.message(name, &self.parent.link, &self.conf.mode);
        parents.create_link(NewLink { name, index, netns: self.pod.netns.as_fd(), mtu, mac, message })
    }

    /// Adds the interface and the DNS settings to the result.
    fn complete(&self, link: &Link, result: &mut AddResult) {
        result.interfaces = vec![ResultInterface {
            name: link.name.clone(),
            mac: Some(link.address.to_string()).filter(|address| !address.is_empty()),
            mtu: Some(link.mtu),
            sandbox: Some(self.request.netns.display().to_string()),
            ..ResultInterface::default()
        }];
        for ip in &mut result.ips {
            ip.interface = Some(0);
        }
        result.dns = self.conf.dns.clone();
    }

    /// Writes the entry to the pod map, once the pod's addresses are GIDs or need not be.
    fn publish(
        &self,
        journal: &mut Journal<Change>,
        sharing: Option<&SharedPorts>,
        result: &AddResult,
    ) -> Result<(), Error> {
        let mut entry = pod_map_entry::new_entry(K::NAME, self.request, self.pod, result)?;
        entry.rdma.master = Some(self.parent.link.name.clone());
        if let Some(sharing) = sharing {
            sharing.wait_and_describe(self.node, result, &mut entry.rdma)?;
        }
        let change = PodMapWrite::of(&self.request.attachment);
        journal.record_and_apply(Change::Published(change.clone()), |_| change.publish(self.node, &entry))
    }
}
