//! The RDMA ports below a parent.
//!
//! A node may have a hundred ports, and none of them below this parent. So ports are searched only where they can be: at
//! the function of the parent or of a link below it, at the other functions of that card, and among the software devices,
//! which have no function. Only if a link is not of a PCI function, devices of other functions without a link are asked too:
//! erdma finds its link, that of a virtio device, by its MAC address (`drivers/infiniband/hw/erdma/erdma_main.c:
//! erdma_enum_and_get_netdev`). If a function has one link and one device with one port, the two belong together, and no
//! netlink request is needed.

use identifiers::LinkName;
use plugin_runtime::{Error, Node};
use rdma::{NetnsMode, Port};
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
    let ask = |devices: &[String]| ask_kernel(node, devices);
    let ports = ports_of_links(node, &parent_and_lower_links(node, parent)?, ask)?;
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

/// Returns the ports of links. `ask` returns all ports of devices, with their links.
fn ports_of_links(
    node: &Node,
    links: &[LinkName],
    ask: impl Fn(&[String]) -> Result<Vec<Port>, Error>,
) -> Result<Vec<SharedPort>, Error> {
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
    let found = of_links(links, ask(&unclear)?);
    if !found.is_empty() {
        return Ok(found);
    }
    let found = of_links(links, ask(&sibling_devices(node, links, &functions)?)?);
    if !found.is_empty() {
        return Ok(found);
    }
    Ok(of_links(links, ask(&devices_without_link(node, links)?)?))
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

/// Returns the devices whose function has no link, if one of the links is not of a function.
fn devices_without_link(node: &Node, links: &[LinkName]) -> Result<Vec<String>, Error> {
    let sysfs = &node.sysfs;
    let (mut is_on_other_bus, mut devices) = (false, Vec::new());
    for link in links {
        is_on_other_bus |= sysfs.is_on_other_bus(link)?;
    }
    if !is_on_other_bus {
        return Ok(devices);
    }
    let names = sysfs.rdma_names();
    for device in names.map_err(|source| sysfs::Error::Io { path: sysfs.root().to_owned(), source })? {
        if let Some(function) = sysfs.function_of_rdma(&device)?
            && sysfs.links(&function)?.is_empty()
        {
            devices.push(device);
        }
    }
    Ok(devices)
}

/// Returns the ports of devices according to netlink.
fn ask_kernel(node: &Node, devices: &[String]) -> Result<Vec<Port>, Error> {
    if devices.is_empty() {
        return Ok(Vec::new());
    }
    let rdma = node.rdma()?;
    let mut ports = Vec::new();
    for device in rdma.devices_named(devices)? {
        ports.extend(rdma.ports(&device)?);
    }
    Ok(ports)
}

/// Returns the ports that belong to one of the links, nearest first.
fn of_links(links: &[LinkName], ports: Vec<Port>) -> Vec<SharedPort> {
    let place = |port: &Port| links.iter().position(|link| port.link_name.as_deref() == Some(link.as_str()));
    let mut found: Vec<_> = ports.into_iter().filter_map(|port| Some((place(&port)?, port))).collect();
    found.sort_by_key(|(place, _)| *place);
    let shared = |port: Port| SharedPort { device: port.device_name, number: port.port };
    found.into_iter().map(|(_, port)| shared(port)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{NodeFixture, link};

    fn parent(name: &str) -> Parent {
        Parent { link: link(7, name) }
    }

    fn found(tree: &NodeFixture, name: &str) -> Vec<(String, u32)> {
        let ports = shared_ports(&tree.node, &parent(name)).unwrap();
        ports.into_iter().map(|port| (port.device, port.number)).collect()
    }

    /// A VLAN on a bond of two functions with a device each.
    fn bond() -> NodeFixture {
        let tree = NodeFixture::new();
        for (link, function, device) in [
            ("eth0", "0000:af:00.0", "mlx5_0"),
            ("eth1", "0000:b0:00.0", "mlx5_1"),
            ("eth2", "0000:c0:00.0", "mlx5_2"),
        ] {
            tree.link(link, function);
            tree.device(device, function, &[1]);
        }
        tree.lowers("bond0.7", &["bond0"]);
        tree.lowers("bond0", &["eth0", "eth1"]);
        tree
    }

    #[test]
    fn the_ports_of_every_link_below_the_parent_are_found() {
        let tree = bond();
        let members = [("mlx5_0".to_owned(), 1), ("mlx5_1".to_owned(), 1)];
        assert_eq!(found(&tree, "bond0.7"), members);
        assert_eq!(found(&tree, "bond0"), members);
        assert_eq!(found(&tree, "eth1"), members[1..]);
        let names: Vec<_> = parent_and_lower_links(&tree.node, &parent("bond0.7")).unwrap();
        assert_eq!(
            names.iter().map(LinkName::as_str).collect::<Vec<_>>(),
            ["bond0.7", "bond0", "eth0", "eth1"]
        );
    }

    #[test]
    fn a_function_with_several_links_or_ports_is_left_to_the_kernel() {
        let tree = bond();
        let only = |name: &str, function: &str| {
            let function = function.parse().unwrap();
            let devices = tree.node.sysfs.rdma_devices(&function).unwrap();
            only_port(&tree.node, &function, &name.parse().unwrap(), &devices).unwrap()
        };
        assert!(only("eth0", "0000:af:00.0").is_some());
        tree.link("eth0np1", "0000:af:00.0");
        assert!(only("eth0", "0000:af:00.0").is_none());
        tree.device("mlx5_1", "0000:b0:00.0", &[1, 2]);
        assert!(only("eth1", "0000:b0:00.0").is_none());
        tree.device("mlx5_9", "0000:c0:00.0", &[1]);
        assert!(only("eth2", "0000:c0:00.0").is_none());
    }

    #[test]
    fn devices_beside_a_function_and_software_devices_of_its_links_may_have_the_port() {
        let tree = NodeFixture::new();
        tree.link("eth0", "0000:af:00.1");
        tree.device("mlx5_0", "0000:af:00.0", &[1, 2]);
        tree.device("mlx5_7", "0000:b0:00.0", &[1]);
        for (device, link) in [("rxe0", Some("eth0")), ("rxe1", Some("eth7")), ("siw0", None)] {
            tree.file(&format!("devices/virtual/infiniband/{device}/any"), "");
            tree.file(&format!("class/infiniband/{device}/any"), "");
            if let Some(link) = link {
                tree.file(&format!("class/infiniband/{device}/parent"), link);
            }
        }
        let (links, functions) = (["eth0".parse().unwrap()], ["0000:af:00.1".parse().unwrap()]);
        let devices = sibling_devices(&tree.node, &links, &functions).unwrap();
        assert_eq!(devices, ["mlx5_0", "rxe0", "siw0"]);
    }

    /// erdma's device is at a PCI function, and its link at a virtio device.
    #[test]
    fn a_device_whose_function_has_no_link_may_have_one_of_another_bus() {
        let tree = bond();
        tree.file("class/net/eth8/device/any", "");
        tree.symlink("../../../../bus/virtio", "class/net/eth8/device/subsystem");
        tree.device("erdma_0", "0000:d0:00.0", &[1]);
        for (device, function) in [("erdma_0", "0000:d0:00.0"), ("mlx5_2", "0000:c0:00.0")] {
            let target = format!("../../../bus/pci/devices/{function}");
            tree.symlink(&target, &format!("class/infiniband/{device}/device"));
        }
        let port = |device: &str, link: &str| Port {
            device: 3,
            device_name: device.into(),
            port: 1,
            state: rdma::PortState::Active,
            phys_state: rdma::PhysState::LinkUp,
            link: Some(8),
            link_name: Some(link.into()),
            link_layer: rdma::LinkLayer::Ethernet,
        };
        let asked = |name: &str| {
            let asked = std::cell::RefCell::new(Vec::new());
            let ask = |devices: &[String]| {
                asked.borrow_mut().extend_from_slice(devices);
                Ok(devices.iter().map(|device| port(device, "eth8")).collect())
            };
            let ports = ports_of_links(&tree.node, &[name.parse().unwrap()], ask).unwrap();
            (ports.into_iter().map(|port| port.device).collect::<Vec<_>>(), asked.into_inner())
        };
        let erdma = || vec!["erdma_0".to_owned()];
        assert_eq!(asked("eth8"), (erdma(), erdma()), "mlx5_2 has a link");
        assert_eq!(asked("bond0"), (vec![], vec![]), "it has no device");
    }

    #[test]
    fn a_parent_without_a_device_has_no_port_in_any_mode_and_one_with_a_device_needs_shared_mode() {
        let tree = bond();
        tree.link("eth9", "0000:d0:00.0");
        tree.file("module/ib_core/parameters/netns_mode", "N");
        assert!(found(&tree, "eth9").is_empty());
        let error = shared_ports(&tree.node, &parent("eth0")).unwrap_err();
        assert!(error.to_string().contains("exclusive RDMA mode"), "{error}");
    }
}
