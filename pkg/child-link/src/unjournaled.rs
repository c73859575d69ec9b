//! A pod's link without a journal: one of the Go plugin, or one whose journal was lost.

use std::time::Duration;

use cni::DelRequest;
use identifiers::{HardwareAddr, LinkName};
use netns::NetNs;
use plugin_runtime::{Error, Node, PodNetns, attachment};
use rtnl::{Link, LinkLayer};
use tracing::info;

use crate::{
    ChildLinkKind,
    link::{HOST_RETURN_TIMEOUT, delete, wait_on_host},
};

/// Deletes the pod's link of this kind and the attachment's name.
///
/// # Errors
/// If it exists and cannot be deleted.
pub(crate) fn delete_unjournaled<K: ChildLinkKind>(
    node: &Node,
    request: &DelRequest<'_>,
) -> Result<(), Error> {
    let pod = pod::<K>(node, request)?;
    if let Some(pod) = &pod
        && let Some(link) = pod.links.find_link(&request.attachment.ifname)?.filter(K::is)
    {
        return delete(&pod.links, link.index);
    }
    if K::LAYER != LinkLayer::InfiniBand {
        return Ok(());
    }
    let Some(returned) = ReturnedLink::of(request) else { return Ok(()) };
    let timeout = if pod.is_none() { HOST_RETURN_TIMEOUT } else { Duration::ZERO };
    match wait_on_host(node, timeout, |links| {
        Ok(links.links()?.into_iter().find(|link| K::is(link) && returned.is(link)))
    })? {
        Some(link) => {
            info!(link = %link.name, "deleting the pod's link, which the kernel moved to the host");
            delete(node.links()?, link.index)
        }
        None => Ok(()),
    }
}

/// Opens the namespace in which the attachment's link may be; `None` if there is none.
fn pod<K: ChildLinkKind>(node: &Node, request: &DelRequest<'_>) -> Result<Option<PodNetns>, Error> {
    let Some(path) = &request.netns else { return Ok(None) };
    let Ok(netns) = NetNs::open(path) else { return Ok(None) };
    // The path may now refer to the node's own namespace, where a link of that name is not the pod's.
    if !request.own_netns_allowed && netns.id() == NetNs::current()?.id() {
        return Ok(None);
    }
    let netns = netns.identified()?;
    // Or to another pod's, which will have a DEL of its own.
    if attachment::find_holder(node, K::NAME, &request.attachment.ifname, netns.id())?.is_some() {
        return Ok(None);
    }
    PodNetns::find(path, netns.id())
}

/// An IPoIB link that the kernel may have moved to the host when the pod's namespace ended. Without a journal, only the
/// result of the ADD identifies it, which runtimes pass to DEL: its address contains the number of its queue pair.
///
/// The kernel may have given the number to another link since. So the link must also have the name that the kernel gives to
/// a link that it moves to the host.
struct ReturnedLink {
    ifname: LinkName,
    address: HardwareAddr,
}

impl ReturnedLink {
    fn of(request: &DelRequest<'_>) -> Option<Self> {
        let ifname = &request.attachment.ifname;
        let interfaces = request.common.conf.prev_result().ok().flatten()?.interfaces;
        let own = interfaces.into_iter().find(|it| it.sandbox.is_some() && it.name == ifname.as_str())?;
        Some(Self { ifname: ifname.clone(), address: own.mac?.parse().ok()? })
    }

    fn is(&self, link: &Link) -> bool {
        let number = link.name.strip_prefix("dev");
        let is_numbered = number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        let has_its_name = link.name == self.ifname.as_str() || is_numbered;
        link.parent.is_some() && has_its_name && link.address == self.address
    }
}
