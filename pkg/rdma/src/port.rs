//! Ports of RDMA devices, and the links they serve.

use netlink_packet_rdma::{NldevAttribute, NldevCommand, PhysState, PortState};

use crate::{
    Device, Error, Handle,
    handle::{attributes, message},
};

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The device's number.
    pub device: u32,
    /// The device's name.
    pub device_name: String,
    /// The port's number, from 1.
    pub port: u32,
    /// Its logical state; traffic needs `Active`.
    pub state: PortState,
    /// Its physical state.
    pub phys_state: PhysState,
    /// The index of its link, if that is in the handle's namespace. InfiniBand ports have none.
    pub link: Option<u32>,
    /// The name of its link, if that is in the handle's namespace.
    pub link_name: Option<String>,
    /// What is below it.
    pub link_layer: LinkLayer,
}

/// What is below a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// RoCE, iWARP.
    Ethernet,
    /// InfiniBand, Omni-Path.
    InfiniBand,
}

impl Handle {
    /// The ports of one device.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if it is not visible in the handle's namespace.
    ///
    /// # Kernel
    /// `RDMA_NLDEV_CMD_PORT_GET` with `RDMA_NLDEV_ATTR_DEV_INDEX` and `RDMA_NLDEV_ATTR_PORT_INDEX`, for each port that the
    /// device has: a list would take two more messages. `EINVAL` is its word for a device that is not there.
    pub fn ports(&self, device: &Device) -> Result<Vec<Port>, Error> {
        let mut found = Vec::new();
        for port in 1..=device.ports {
            let asked = vec![NldevAttribute::DevIndex(device.index), NldevAttribute::PortIndex(port)];
            let object = format_args!("port {port} of RDMA device {}", device.name);
            let answer = self.get_at_once("read", &object, message(NldevCommand::PortGet, asked));
            let answer = answer.map_err(|error| match error.errno() {
                Some(nix::errno::Errno::EINVAL) => Error::NoSuchDevice { device: device.name.clone() },
                _ => error.into(),
            })?;
            found.extend(Port::read(attributes(answer)));
        }
        Ok(found)
    }

    /// The ports of all devices that are visible in the handle's namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    #[doc(alias = "rdma link show")]
    pub fn all_ports(&self) -> Result<Vec<Port>, Error> {
        let mut all = Vec::new();
        for device in self.devices()? {
            match self.ports(&device) {
                Ok(found) => all.extend(found),
                Err(Error::NoSuchDevice { .. }) => {} // went to a pod meanwhile
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// The ports that serve any of the links with these indexes, in the order of the indexes.
    ///
    /// A macvlan's traffic leaves by its parent's port. Where the parent is a VLAN or a bond, pass also what is
    /// below it: a RoCE device belongs to the physical link, or to the bond if the card bonds in hardware.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    #[doc(alias = "RDMA_NLDEV_ATTR_NDEV_INDEX")]
    pub fn ports_on(&self, links: &[u32]) -> Result<Vec<Port>, Error> {
        let place = |port: &Port| links.iter().position(|link| Some(*link) == port.link);
        let mut found = self.all_ports()?;
        found.retain(|port| place(port).is_some());
        found.sort_by_key(place);
        Ok(found)
    }
}

impl Port {
    /// The port that an answer tells of; `None` if it names no device or no port.
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
                // The kernel sends LIDs for ports that speak InfiniBand, and for no others.
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
        sent.push(NldevAttribute::Lid(7));
        let port = Port::read(sent).unwrap();
        assert_eq!(
            (port.link_layer, port.link, port.state),
            (LinkLayer::InfiniBand, None, PortState::Active)
        );
    }

    #[test]
    fn an_answer_without_a_device_is_no_port() {
        assert_eq!(Port::read(vec![NldevAttribute::PortIndex(1)]), None);
    }
}
