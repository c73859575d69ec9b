//! Ports of RDMA devices, and their links.

use netlink_packet_rdma::{NldevAttribute, NldevCommand, PhysState, PortState};

use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The device's index.
    pub device: u32,
    /// The device's name, such as `mlx5_3`.
    pub device_name: String,
    /// The port's number, from 1.
    pub port: u32,
    /// The logical state; only an `Active` port can transfer data.
    pub state: PortState,
    /// The physical state.
    pub phys_state: PhysState,
    /// The index of its link, if that is in the handle's namespace. InfiniBand ports have none.
    pub link: Option<u32>,
    /// The name of its link, if that is in the handle's namespace.
    pub link_name: Option<String>,
    /// The link layer.
    pub link_layer: LinkLayer,
}

/// The link layer of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// Ethernet: RoCE and iWARP.
    Ethernet,
    /// InfiniBand and Omni-Path.
    InfiniBand,
}

impl Handle {
    /// Returns the ports of one device.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if it is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_PORT_GET` with `RDMA_NLDEV_ATTR_DEV_INDEX` and `RDMA_NLDEV_ATTR_PORT_INDEX`, for each port of the
    /// device: a dump would take two more messages. `EINVAL` means that the device is not in this namespace.
    pub fn ports(&self, device: &Device) -> Result<Vec<Port>, Error> {
        let mut found = Vec::new();
        for port in 1..=device.ports {
            let request = vec![NldevAttribute::DevIndex(device.index), NldevAttribute::PortIndex(port)];
            let object = format_args!("port {port} of RDMA device {}", device.name);
            let reply = self.get_at_once("read", &object, message(NldevCommand::PortGet, request));
            let reply = reply.map_err(|error| match error.errno() {
                Some(nix::errno::Errno::EINVAL) => Error::NoSuchDevice { device: device.name.clone() },
                _ => error.into(),
            })?;
            found.extend(Port::read(attributes(reply)));
        }
        Ok(found)
    }

    /// Returns the ports of all devices that are visible in the handle's namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    #[doc(alias = "rdma link show")]
    pub fn all_ports(&self) -> Result<Vec<Port>, Error> {
        let mut all = Vec::new();
        for device in self.devices()? {
            match self.ports(&device) {
                Ok(found) => all.extend(found),
                Err(Error::NoSuchDevice { .. }) => {} // moved to a pod meanwhile
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Returns the ports whose links have these indexes, in the order of the indexes.
    ///
    /// A macvlan link uses its parent's port. If the parent is a VLAN or a bond, pass the indexes of the links below it
    /// too: a RoCE device belongs to the physical link, or to the bond if the card bonds in hardware.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    #[doc(alias = "RDMA_NLDEV_ATTR_NDEV_INDEX")]
    pub fn ports_on(&self, links: &[u32]) -> Result<Vec<Port>, Error> {
        Ok(on_links(self.all_ports()?, links))
    }
}

/// Returns the ports whose links have these indexes, in the order of the indexes.
fn on_links(mut ports: Vec<Port>, links: &[u32]) -> Vec<Port> {
    let place = |port: &Port| links.iter().position(|link| Some(*link) == port.link);
    ports.retain(|port| place(port).is_some());
    ports.sort_by_key(place);
    ports
}

impl Port {
    /// Reads the port in a reply; `None` if it has no device or no port number.
    pub fn read(attributes: Vec<NldevAttribute>) -> Option<Self> {
        let (mut device, mut device_name, mut port) = (None, None, None);
        let (mut state, mut phys_state) = (PortState::Other(0), PhysState::Other(0));
        let (mut link, mut link_name, mut link_layer) = (None, None, LinkLayer::Ethernet);
        for attribute in attributes {
            match attribute {
                NldevAttribute::DevIndex(v) => device = Some(v),
                NldevAttribute::DevName(v) => device_name = Some(v),
                NldevAttribute::PortIndex(v) => port = Some(v),
                NldevAttribute::PortState(v) => state = v,
                NldevAttribute::PortPhysState(v) => phys_state = v,
                NldevAttribute::NdevIndex(v) => link = Some(v),
                NldevAttribute::NdevName(v) => link_name = Some(v),
                // The kernel sends LIDs only for InfiniBand ports.
                NldevAttribute::Lid(_) => link_layer = LinkLayer::InfiniBand,
                _ => {}
            }
        }
        let (device, device_name, port) = (device?, device_name?, port?);
        Some(Self { device, device_name, port, state, phys_state, link, link_name, link_layer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_with_a_lid_is_infiniband() {
        let mut sent = vec![
            NldevAttribute::DevIndex(3),
            NldevAttribute::DevName("mlx5_3".into()),
            NldevAttribute::PortIndex(1),
            NldevAttribute::PortState(PortState::Active),
        ];
        assert_eq!(Port::read(sent.clone()).unwrap().link_layer, LinkLayer::Ethernet);
        let link = [NldevAttribute::NdevIndex(9), NldevAttribute::NdevName("eth3".into())];
        let roce =
            Port::read([&sent[..], &link, &[NldevAttribute::PortPhysState(PhysState::LinkUp)]].concat());
        let roce = roce.unwrap();
        assert_eq!(
            (roce.link, roce.link_name.as_deref(), roce.phys_state),
            (Some(9), Some("eth3"), PhysState::LinkUp)
        );
        assert_eq!((roce.device, &*roce.device_name, roce.port), (3, "mlx5_3", 1));
        sent.push(NldevAttribute::Lid(7));
        let port = Port::read(sent).unwrap();
        assert_eq!(
            (port.link_layer, port.link, port.state),
            (LinkLayer::InfiniBand, None, PortState::Active)
        );
    }

    #[test]
    fn the_ports_of_links_have_the_order_of_the_links() {
        let port = |device, link: Option<u32>| {
            let ids = [
                NldevAttribute::DevIndex(device),
                NldevAttribute::DevName(format!("mlx5_{device}")),
                NldevAttribute::PortIndex(1),
            ];
            Port::read(ids.into_iter().chain(link.map(NldevAttribute::NdevIndex)).collect()).unwrap()
        };
        let all =
            || vec![port(0, Some(2)), port(1, None), port(2, Some(3)), port(3, Some(9)), port(4, Some(3))];
        let found = |links: &[u32]| on_links(all(), links).iter().map(|port| port.device).collect::<Vec<_>>();
        // The link itself first, then those below it.
        assert_eq!(found(&[3, 7, 2]), [2, 4, 0]);
        assert_eq!([found(&[]), found(&[7])], [const { Vec::<u32>::new() }; 2]);
    }

    #[test]
    fn a_reply_without_a_device_is_not_a_port() {
        assert_eq!(Port::read(vec![NldevAttribute::PortIndex(1)]), None);
    }
}
