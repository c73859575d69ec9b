//! The RDMA ports below a parent.
//!
//! A node may have a hundred ports, and none of them below this parent. So ports are searched only where they can be: at
//! the function of the parent or of a link below it, at the other functions of that card, and among the software devices,
//! which have no function. If a function has one link and one device with one port, the two belong together, and no
//! netlink request is needed.

use identifiers::LinkName;
use plugin_runtime::{Error, Node};
use rdma::NetnsMode;
use sysfs::Function;

use crate::{error::ChildError, parent::Parent};

/// A port of an RDMA device whose GID table gets the addresses of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedPort {
    pub(crate) device: String,
    pub(crate) number: u32,
}

/// Returns the ports below a parent; none on a node without RDMA.
///
/// # Errors
/// If the node is in exclusive mode, or its devices cannot be read.
pub(crate) fn shared_ports(node: &Node, parent: &Parent) -> Result<Vec<SharedPort>, Error> {
    if !node.sysfs.has_rdma()? {
        return Ok(Vec::new());
    }
    let ports = ports_of_links(node, &parent_and_lower_links(node, parent)?)?;
    if ports.is_empty() || is_shared(node)? {
        return Ok(ports);
    }
    Err(ChildError::ModeIsExclusive(parent.link.name.clone()).into())
}

fn is_shared(node: &Node) -> Result<bool, Error> {
    if let Some(shared) = node.sysfs.shared_netns_parameter()? {
        return Ok(shared);
    }
    Ok(node.rdma()?.netns_mode()? == NetnsMode::Shared)
}

/// Returns the parent and the links below it, nearest first: the parent of a VLAN, the members of a bond.
fn parent_and_lower_links(node: &Node, parent: &Parent) -> Result<Vec<LinkName>, Error> {
    let mut found: Vec<LinkName> = parent.link.name.parse().into_iter().collect();
    let mut next = 0;
    while let Some(link) = found.get(next) {
        let lowers = node.sysfs.lowers(link)?;
        next += 1;
        for lower in lowers.iter().filter_map(|name| name.parse().ok()) {
            if !found.contains(&lower) {
                found.push(lower);
            }
        }
    }
    Ok(found)
}

fn ports_of_links(node: &Node, links: &[LinkName]) -> Result<Vec<SharedPort>, Error> {
    let (mut ports, mut functions, mut unclear) = (Vec::new(), Vec::new(), Vec::new());
    for link in links {
        let Some(function) = node.sysfs.function_of(link)? else { continue };
        let devices = node.sysfs.rdma_devices(&function)?;
        match only_port(node, &function, link, &devices)? {
            Some(port) => ports.push(port),
            None => unclear.extend(devices),
        }
        functions.push(function);
    }
    if !ports.is_empty() {
        return Ok(ports);
    }
    let found = named_by_kernel(node, links, &unclear)?;
    if !found.is_empty() {
        return Ok(found);
    }
    named_by_kernel(node, links, &sibling_devices(node, links, &functions)?)
}

/// Returns the port of a function that has only this link, and only one device with one port.
fn only_port(
    node: &Node,
    function: &Function,
    link: &LinkName,
    devices: &[String],
) -> Result<Option<SharedPort>, Error> {
    let [device] = devices else { return Ok(None) };
    if node.sysfs.links(function)? != [link.clone()] || node.sysfs.rdma_ports(device)? != [1] {
        return Ok(None);
    }
    Ok(Some(SharedPort { device: device.clone(), number: 1 }))
}

/// Returns the devices of other functions that may have a port at one of the links.
fn sibling_devices(node: &Node, links: &[LinkName], functions: &[Function]) -> Result<Vec<String>, Error> {
    let mut devices = Vec::new();
    for function in functions {
        for beside in node.sysfs.functions_beside(function) {
            devices.extend(node.sysfs.rdma_devices(&beside)?);
        }
    }
    for device in node.sysfs.virtual_rdma_devices()? {
        // rxe has its link in sysfs.
        let link = node.sysfs.rdma_link(&device)?;
        if link.is_none_or(|link| links.iter().any(|ours| ours.as_str() == link)) {
            devices.push(device);
        }
    }
    Ok(devices)
}

/// Returns the ports of these devices that belong to one of the links according to netlink, nearest first.
fn named_by_kernel(node: &Node, links: &[LinkName], devices: &[String]) -> Result<Vec<SharedPort>, Error> {
    if devices.is_empty() {
        return Ok(Vec::new());
    }
    let rdma = node.rdma()?;
    let mut found = Vec::new();
    for device in rdma.devices_named(devices)? {
        for port in rdma.ports(&device)? {
            let place = links.iter().position(|link| port.link_name.as_deref() == Some(link.as_str()));
            found.extend(
                place.map(|place| (place, SharedPort { device: port.device_name, number: port.port })),
            );
        }
    }
    found.sort_by_key(|(place, _)| *place);
    Ok(found.into_iter().map(|(_, port)| port).collect())
}
