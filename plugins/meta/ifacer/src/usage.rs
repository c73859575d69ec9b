//! What uses a link of the node.

use std::{io::ErrorKind, os::fd::AsFd};

use netns::{NetNs, NotOnNode};
use plugin_runtime::{Error, Node, PodNetns, every_other_netns};
use rtnl::{Link, LinkKind};

use crate::error::MasterError;

/// Returns what uses a link, apart from the node's own routes: an address, a bond or bridge, or a link on it, in any
/// namespace in use; or why a namespace cannot be examined, so that it may have such a link. `None` if nothing does.
///
/// # Errors
/// If the kernel does not list the links; [`MasterError::Unexamined`] if it does not list the namespaces for the moment.
pub(crate) fn user_of(node: &Node, link: &Link) -> Result<Option<String>, Error> {
    let addresses = node.links()?.addresses(link.index)?;
    user(node, link, addresses.first().map(ToString::to_string))
}

/// Returns why a link must not be deleted or set down: its VFs, or what uses it, as [`user_of`], but without addresses that
/// the kernel adds itself after router advertisements. `None` if nothing does.
///
/// # Errors
/// As [`user_of`].
pub(crate) fn reason_to_keep(node: &Node, link: &Link) -> Result<Option<String>, Error> {
    let vfs = num_vfs(node, link)?;
    if vfs > 0 {
        return Ok(Some(format!("it has {vfs} VFs")));
    }
    let links = node.links()?;
    let permanent = links.permanent_addresses(link.index)?;
    let addresses = links.addresses(link.index)?;
    // The kernel adds only IPv6 addresses; those of IPv4 with a lifetime are of a DHCP client.
    let kept = addresses.iter().find(|address| address.is_ipv4() || permanent.contains(address));
    user(node, link, kept.map(ToString::to_string))
}

/// Returns the number of VFs of a link, if it is that of a PF.
fn num_vfs(node: &Node, link: &Link) -> Result<u32, Error> {
    let Ok(name) = link.name.parse() else { return Ok(0) };
    let function = node.sysfs.function_of(&name)?;
    let Some(pf) = function.and_then(|function| function.pci()) else { return Ok(0) };
    Ok(node.sysfs.num_vfs(pf)?)
}

fn user(node: &Node, link: &Link, address: Option<String>) -> Result<Option<String>, Error> {
    let links = node.links()?;
    if let Some(controller) = link.controller {
        return Ok(Some(format!("it belongs to the link with index {controller}")));
    }
    if let Some(address) = address {
        return Ok(Some(format!("it has the address {address}")));
    }
    let is_child = |child: &Link| child.parent == Some(link.index) && !is_peer(child);
    if let Some(child) = links.links()?.iter().find(|child| is_child(child) && child.parent_netns.is_none()) {
        return Ok(Some(format!("the link {} is on it", child.name)));
    }
    let pods = match every_other_netns()? {
        Ok(pods) => pods,
        // Another call can succeed.
        Err(NotOnNode::Unreadable { source, .. }) if source.kind() != ErrorKind::PermissionDenied => {
            return Err(MasterError::Unexamined { link: link.name.clone(), source }.into());
        }
        Err(unknown) => return Ok(Some(unknown.to_string())),
    };
    let host = NetNs::current()?;
    for netns in pods {
        if let Some(user) = user_in(netns, &host, &is_child)? {
            return Ok(Some(user));
        }
    }
    Ok(None)
}

/// Returns the link of another namespace that is on a link of the node. The index of the parent is not enough: a pod with
/// namespaces of its own can have links with any index.
fn user_in(netns: NetNs, host: &NetNs, is_child: &dyn Fn(&Link) -> bool) -> Result<Option<String>, Error> {
    let pod = PodNetns::of(netns)?;
    let mut inside = pod.links.links()?;
    inside.retain(|child| is_child(child) && child.parent_netns.is_some());
    if inside.is_empty() {
        return Ok(None);
    }
    let host = pod.links.netns_id(host.as_fd())?;
    let is_on_host =
        |child: &&Link| child.parent_netns == host || child.parent_netns.is_some_and(|id| id < 0);
    let child = inside.iter().find(is_on_host);
    Ok(child.map(|child| format!("the link {} of the network namespace {} is on it", child.name, pod.id())))
}

/// Whether the `parent` of a link is its peer.
fn is_peer(link: &Link) -> bool {
    matches!(&link.kind, Some(LinkKind::Other(kind)) if kind == "veth" || kind == "netkit")
}
