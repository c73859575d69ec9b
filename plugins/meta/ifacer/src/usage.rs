//! What uses a link of the node.

use std::os::fd::AsFd;

use netns::NetNs;
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
        Err(error) if !error.is_not_permitted() => {
            return Err(MasterError::Unexamined { link: link.name.clone(), source: error }.into());
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

#[cfg(test)]
mod tests {
    use state::StateDir;
    use testkit::{Observe, TestNode};

    use super::*;

    #[test]
    fn a_link_is_used_by_its_controller_its_address_or_a_link_on_it() {
        let (host, state) = (TestNode::new(), tempfile::tempdir().unwrap());
        let node = Node::new(StateDir::at(state.path()), Vec::new(), None);
        for link in ["eth0", "eth1", "eth2"] {
            host.run_ip(&format!("link add {link} type veth"));
        }
        host.run_ip("link add br0 type bridge");
        host.run_ip("link set eth0 master br0");
        host.run_ip("address add fd00::5/64 dev eth1 nodad");
        host.run_ip("link add mv0 link eth2 type macvlan");
        let link = |name: &str| node.links().unwrap().link(&name.parse().unwrap()).unwrap();
        for (name, expected) in [
            ("eth0", "it belongs to the link"),
            ("eth1", "it has the address fd00::5/64"),
            ("eth2", "the link mv0 is on it"),
        ] {
            let users = [user_of(&node, &link(name)).unwrap(), reason_to_keep(&node, &link(name)).unwrap()];
            assert!(users.iter().flatten().filter(|user| user.contains(expected)).count() == 2, "{users:?}");
        }
    }

    #[test]
    fn an_address_of_a_router_uses_a_link_only_before_the_plugin_has_it() {
        let (host, state) = (TestNode::new(), tempfile::tempdir().unwrap());
        let node = Node::new(StateDir::at(state.path()), Vec::new(), None);
        host.run_ip("link add eth0 type veth");
        host.run_ip("address add fd00::5/64 dev eth0 nodad mngtmpaddr");
        let address = |keep: bool| {
            let link = node.links().unwrap().link(&"eth0".parse().unwrap()).unwrap();
            let user = if keep { reason_to_keep(&node, &link) } else { user_of(&node, &link) };
            user.unwrap().is_some_and(|user| user.contains("it has the address"))
        };
        assert_eq!((address(false), address(true)), (true, false));
        host.run_ip("address add 10.7.0.5/24 dev eth0 valid_lft 3600 preferred_lft 3600");
        assert!(address(true), "that of a DHCP client");
    }
}
