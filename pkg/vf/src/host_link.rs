//! The link of a function while it is in the host namespace.

use std::time::Duration;

use identifiers::Attachment;
use plugin_runtime::{Error, Node, is_attached_by_go_since};
use rtnl::{Handle, Link, LinkLayer};
use state::claim::{self, ClaimKind};
use sysfs::Function;

use crate::error::VfError;

/// How long a function may take to return from a namespace that was deleted. The kernel returns it in the background.
const RETURN_TIMEOUT: Duration = Duration::from_secs(20);

/// Finds the link of a function that is on the host or is returning to it; `None` if it is bound to a user-space driver.
///
/// # Errors
/// If it has no link, is in another namespace, is used by the node, or has another link layer.
pub(crate) fn find_unused(node: &Node, function: &Function, layer: LinkLayer) -> Result<Option<Link>, Error> {
    let link = find(node, function)?;
    if let Some(link) = &link {
        require_layer(function, link, layer)?;
        require_unused(node, function, link)?;
    }
    Ok(link)
}

fn find(node: &Node, function: &Function) -> Result<Option<Link>, Error> {
    if let Some(link) = host_link(node, function)? {
        return Ok(Some(link));
    }
    let Some(driver) = node.sysfs.driver(function)? else {
        return Err(VfError::NoDriver(function.clone()).into());
    };
    if node.sysfs.user_space_nodes(function)?.is_some() {
        return Ok(None);
    }
    wait_for_host_link(node, function, RETURN_TIMEOUT)?
        .map(Some)
        .ok_or_else(|| VfError::NoLink { vf: function.clone(), driver }.into())
}

/// Refuses a VF of the other link layer. The network device of an InfiniBand VF is IP over InfiniBand, which belongs to its
/// RDMA device: the kernel deletes it when that moves to another namespace, and creates another one in the host namespace.
fn require_layer(function: &Function, link: &Link, layer: LinkLayer) -> Result<(), Error> {
    match (layer, link.layer()) {
        (LinkLayer::Ethernet, LinkLayer::InfiniBand) => {
            Err(VfError::IsInfiniBand { vf: function.clone(), link: link.name.clone() }.into())
        }
        (LinkLayer::InfiniBand, LinkLayer::Ethernet) => Err(VfError::IsEthernet {
            vf: function.clone(),
            link: link.name.clone(),
            hardware: link.hardware,
        }
        .into()),
        _ => Ok(()),
    }
}

/// Refuses a function that the node itself uses: a move would remove its addresses, its place in a bond, or the parent of an IPoIB
/// link. Temporary addresses
/// of DHCP or a router do not count: NetworkManager, or the kernel, requests them on every link that is up.
fn require_unused(node: &Node, function: &Function, link: &Link) -> Result<(), Error> {
    let links = node.links()?;
    let used = match link.controller.map(|index| links.link_by_index(index)).transpose()? {
        Some(controller) => Some(format!("belongs to {}", controller.name)),
        None => {
            let addresses = links.permanent_addresses(link.index)?;
            let address = addresses.first().map(|address| format!("has the address {address}"));
            address.map_or_else(|| child(links, link), |address| Ok(Some(address)))?
        }
    };
    let Some(used) = used else { return Ok(()) };
    Err(VfError::NodeUsesIt { vf: function.clone(), link: link.name.clone(), used }.into())
}

/// Describes an IPoIB link on the function's; `None` if there is none.
fn child(links: &Handle, link: &Link) -> Result<Option<String>, Error> {
    if link.layer() != LinkLayer::InfiniBand {
        return Ok(None);
    }
    let child = links.links()?.into_iter().find(|child| child.is_ipoib_child_of(link));
    Ok(child.map(|child| format!("is the parent of {}", child.name)))
}

/// Whether another attachment has a function, which must then not be changed.
///
/// # Errors
/// If the claims cannot be read.
pub fn is_claimed_by_other(node: &Node, function: &Function, owner: &Attachment) -> Result<bool, Error> {
    let kind = ClaimKind::Vf;
    if claim::is_claimed_by_other(&node.state, node.claims_lock().at(), kind, function, owner)? {
        return Ok(true);
    }
    Ok(is_attached_by_go_since(node, kind, function, owner)? && host_link(node, function)?.is_none())
}

/// Whether a function exists and is bound to a driver that creates a link.
///
/// # Errors
/// If sysfs cannot be read.
pub fn may_have_link(node: &Node, function: &Function) -> Result<bool, Error> {
    if !node.sysfs.has(function)? {
        return Ok(false);
    }
    Ok(node.sysfs.driver(function)?.is_some() && node.sysfs.user_space_nodes(function)?.is_none())
}

/// Returns the link of a function, if it is in the host namespace.
///
/// # Errors
/// If sysfs or the link cannot be read.
pub fn host_link(node: &Node, function: &Function) -> Result<Option<Link>, Error> {
    if !node.sysfs.has(function)? {
        return Ok(None);
    }
    // Not by its name: a pod may have given it a name that is not valid UTF-8.
    let Some(index) = node.sysfs.link_index(function)? else { return Ok(None) };
    Ok(node.links()?.find_link_by_index(index)?)
}

/// Waits for a function that is returning to the host; `None` if it does not return within `timeout`.
///
/// # Errors
/// If sysfs or the link cannot be read.
pub fn wait_for_host_link(
    node: &Node,
    function: &Function,
    timeout: Duration,
) -> Result<Option<Link>, Error> {
    let wait = |source| Error::Wait { what: "a VF to return to the host", source };
    let events = rtnl::events(false).map_err(wait)?;
    let deadline = node.budget.until("a VF to return to the host", timeout);
    loop {
        let link = host_link(node, function)?;
        if link.is_some() || deadline.has_passed() || !node.sysfs.has(function)? {
            return Ok(link);
        }
        // sysfs has the link shortly after the event, so check again soon.
        events.wait(deadline.at(), Duration::from_millis(20)).map_err(wait)?;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use cni::Error as CniError;
    use identifiers::HardwareAddr;

    use super::*;

    pub(crate) fn link(hardware: u16) -> Link {
        Link {
            index: 7,
            name: "ibp175s0v0".into(),
            altnames: Vec::new(),
            kind: None,
            hardware,
            address: HardwareAddr::default(),
            mac: None,
            permanent_mac: None,
            mtu: 2044,
            up: false,
            running: false,
            parent: None,
            parent_netns: None,
            controller: None,
            device: None,
            settings: rtnl::LinkSettings::default(),
        }
    }

    #[test]
    fn a_vf_of_the_other_link_layer_is_refused_with_the_plugin_to_use() {
        let vf = "0000:af:00.2".parse().unwrap();
        require_layer(&vf, &link(rtnl::ETHERNET), LinkLayer::Ethernet).unwrap();
        require_layer(&vf, &link(rtnl::INFINIBAND), LinkLayer::InfiniBand).unwrap();
        let refused = |hardware, layer| {
            let error = CniError::from(require_layer(&vf, &link(hardware), layer).unwrap_err());
            assert_eq!(error.code, cni::ErrorCode::UNSUPPORTED_FIELD);
            assert!(error.msg.contains("0000:af:00.2"), "{error:?}");
            error
        };
        let error = refused(rtnl::INFINIBAND, LinkLayer::Ethernet);
        assert!(error.msg.contains("InfiniBand") && error.details.contains("ib-sriov"), "{error:?}");
        let error = refused(rtnl::ETHERNET, LinkLayer::InfiniBand);
        assert!(error.msg.contains("Ethernet") && error.details.contains("the plugin sriov"), "{error:?}");
    }
}
