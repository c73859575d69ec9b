//! A pod's link without a journal: one of the Go plugin, or one whose journal was lost.

use std::time::Duration;

use cni::DelRequest;
use identifiers::{HardwareAddr, LinkName};
use netns::NetNs;
use plugin_runtime::{Error, Node, PodNetns, attachment};
use rtnl::{Link, LinkLayer};
use tracing::{info, warn};

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
    let is_it = |link: &Link| K::is(link) && returned.is(link);
    match wait_on_host(node, timeout, |links| Ok(links.links()?.into_iter().find(is_it)))? {
        // The author of a network can set a `prevResult`, and name a link that the node uses.
        Some(link) if link.up || !node.links()?.addresses(link.index)?.is_empty() => {
            warn!(link = %link.name, "a link has the name and address of the pod's, and is kept because the node uses it");
            Ok(())
        }
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
/// a link that it moves to the host, and must be down and without addresses: the kernel closes a link that it moves
/// (`__dev_change_net_namespace` in net/core/dev.c).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::link;

    #[test]
    fn a_link_that_returned_has_its_address_and_a_name_that_the_kernel_gives() {
        let address: HardwareAddr =
            "80:00:00:48:fe:80:00:00:00:00:00:00:02:00:00:00:00:00:00:01".parse().unwrap();
        let returned = ReturnedLink { ifname: "net1".parse().unwrap(), address: address.clone() };
        let is = |name: &str, parent, address: &HardwareAddr| {
            returned.is(&Link { parent, address: address.clone(), ..link(9, name) })
        };
        for (name, expected) in [
            ("net1", true),
            ("dev7", true),
            ("dev12", true),
            ("net2", false),
            ("devx", false),
            ("dev7x", false),
        ] {
            assert_eq!(is(name, Some(3), &address), expected, "{name}");
        }
        assert!(!is("net1", None, &address), "the link of a port");
        assert!(!is("net1", Some(3), &HardwareAddr::default()));
    }
}
