//! What uses a link of the node.

use plugin_runtime::{Error, Node, PodNetns, other_netns};
use rtnl::{Link, LinkKind};

/// Returns what uses a link, apart from the node's own routes: an address, a bond or bridge, or a link on it, in any
/// namespace in use. `None` if nothing does.
///
/// # Errors
/// If the kernel does not list the links.
pub(crate) fn user_of(node: &Node, link: &Link) -> Result<Option<String>, Error> {
    let links = node.links()?;
    if let Some(controller) = link.controller {
        return Ok(Some(format!("it belongs to the link with index {controller}")));
    }
    if let Some(address) = links.addresses(link.index)?.first() {
        return Ok(Some(format!("it has the address {address}")));
    }
    let is_child = |child: &Link| child.parent == Some(link.index) && !is_peer(child);
    if let Some(child) = links.links()?.iter().find(|child| is_child(child) && !child.parent_is_elsewhere) {
        return Ok(Some(format!("the link {} is on it", child.name)));
    }
    for netns in other_netns()? {
        // A namespace that ends meanwhile has no links.
        let Ok(pod) = PodNetns::of(netns) else { continue };
        let inside = pod.links.links().unwrap_or_default();
        if let Some(child) = inside.iter().find(|child| is_child(child) && child.parent_is_elsewhere) {
            return Ok(Some(format!(
                "the link {} of the network namespace {} is on it",
                child.name,
                pod.id()
            )));
        }
    }
    Ok(None)
}

/// Whether the `parent` of a link is its peer.
fn is_peer(link: &Link) -> bool {
    matches!(&link.kind, Some(LinkKind::Other(kind)) if kind == "veth" || kind == "netkit")
}
