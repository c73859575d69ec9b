//! A link, and reading it from an `RTM_NEWLINK` message.

use identifiers::{HardwareAddr, MacAddr};
use netlink_packet_core::{DefaultNla, NLA_TYPE_MASK, Nla, NlasIterator};
use netlink_packet_route::link::{
    InfoBond, InfoData, InfoIpVlan, InfoIpoib, InfoKind, InfoMacVlan, InfoVlan, IpVlanMode, IpoibMode,
    LinkAttribute, LinkFlags, LinkInfo, LinkMessage, MacVlanMode, State,
};

use crate::{kernel_text::text, link_settings::LinkSettings, old_kernel::PROP_LIST};

/// `ARPHRD_ETHER`, the [`Link::hardware`] of Ethernet.
pub const ETHERNET: u16 = 1;
/// `ARPHRD_INFINIBAND`, the [`Link::hardware`] of IP over InfiniBand.
pub const INFINIBAND: u16 = 32;

/// The link layer below a network device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLayer {
    /// Ethernet, and what else has a MAC address of six bytes.
    Ethernet,
    /// InfiniBand, with IP over InfiniBand.
    InfiniBand,
}

/// A link, as read from an `RTM_NEWLINK` message.
#[derive(Debug, Clone)]
pub struct Link {
    /// The index in its namespace. It may change when the link moves.
    pub index: u32,
    /// The name. Invalid UTF-8 and control characters are replaced by U+FFFD.
    pub name: String,
    /// The alternative names (`IFLA_ALT_IFNAME`), with the same replacement.
    pub altnames: Vec<String>,
    /// The kind of a virtual link; `None` for a physical one.
    pub kind: Option<LinkKind>,
    /// The hardware type, an `ARPHRD_` number like [`ETHERNET`].
    pub hardware: u16,
    /// The hardware address.
    pub address: HardwareAddr,
    /// The hardware address if it has six bytes, as an Ethernet MAC address.
    pub mac: Option<MacAddr>,
    /// The permanent MAC address (`IFLA_PERM_ADDRESS`), if the driver reports it.
    pub permanent_mac: Option<MacAddr>,
    /// The MTU in bytes.
    pub mtu: u32,
    /// Whether it is administratively up (`IFF_UP`).
    pub up: bool,
    /// Whether it is operational (`IFF_RUNNING`).
    pub running: bool,
    /// The index of the parent (`IFLA_LINK`), in the parent's namespace.
    pub parent: Option<u32>,
    /// The ID of the parent's namespace, if that is another one (`IFLA_LINK_NETNSID`): see [`Handle::netns_id`](crate::Handle::netns_id). Negative if
    /// the kernel could not assign one.
    pub parent_netns: Option<i32>,
    /// The index of the bond or bridge that it belongs to (`IFLA_MASTER`).
    pub controller: Option<u32>,
    /// The bus address of its device (`IFLA_PARENT_DEV_NAME`, since Linux 5.14): `0000:af:00.2`.
    pub device: Option<String>,
    /// The other settings that can be changed.
    pub settings: LinkSettings,
}

/// The kind of a virtual link (`IFLA_INFO_KIND`), with its mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkKind {
    /// `macvlan`, with its mode if the message has it.
    MacVlan(Option<MacVlanMode>),
    /// `ipvlan`, with its mode if the message has it.
    IpVlan(Option<IpVlanMode>),
    /// `ipoib`, an IP over InfiniBand link of a port or of another partition of it, with its settings if the message has
    /// them.
    Ipoib(Option<IpoibSettings>),
    /// `vlan`, 802.1Q or 802.1ad, with its VLAN ID if the message has it.
    Vlan(Option<u16>),
    /// `bond`, a bonding master, with the number of its mode if the message has it.
    Bond(Option<u8>),
    /// Any other kind, such as `veth`.
    Other(String),
}

/// The settings of an IP over InfiniBand link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpoibSettings {
    /// The partition key. The highest bit means full membership.
    pub pkey: u16,
    /// Datagram or connected.
    pub mode: IpoibMode,
}

impl Link {
    /// Returns the link layer.
    pub fn layer(&self) -> LinkLayer {
        if self.hardware == INFINIBAND { LinkLayer::InfiniBand } else { LinkLayer::Ethernet }
    }

    /// Whether this is the IPoIB link of a port. Since Linux 5.10 it has a kind, like a virtual link, but no parent.
    pub fn is_ipoib_port(&self) -> bool {
        matches!(self.kind, Some(LinkKind::Ipoib(_))) && self.parent.is_none()
    }

    /// Whether this is an IPoIB link on another one of its namespace.
    pub fn is_ipoib_child_of(&self, parent: &Link) -> bool {
        matches!(self.kind, Some(LinkKind::Ipoib(_))) && self.parent == Some(parent.index)
    }
}

impl std::fmt::Display for LinkKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::MacVlan(_) => "macvlan",
            Self::IpVlan(_) => "ipvlan",
            Self::Ipoib(_) => "ipoib",
            Self::Vlan(_) => "vlan",
            Self::Bond(_) => "bond",
            Self::Other(name) => name,
        })
    }
}

/// Returns the link of a message; attributes that it does not contain are empty.
pub(crate) fn read(message: &LinkMessage) -> Link {
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        altnames: Vec::new(),
        kind: None,
        hardware: message.header.link_layer_type.into(),
        address: HardwareAddr::default(),
        mac: None,
        permanent_mac: None,
        mtu: 0,
        up: flags.contains(LinkFlags::Up),
        running: flags.contains(LinkFlags::Running),
        parent: None,
        parent_netns: None,
        controller: None,
        device: None,
        settings: LinkSettings::default(),
    };
    link.settings.read_flags(flags);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Other(properties) if is_prop_list(attribute) => {
                link.altnames = altnames(properties);
            }
            LinkAttribute::Other(setting) => link.settings.read(setting),
            LinkAttribute::Address(bytes) => {
                link.address = HardwareAddr::from_bytes(bytes);
                link.mac = MacAddr::from_bytes(bytes);
            }
            LinkAttribute::PermAddress(bytes) => link.permanent_mac = MacAddr::from_bytes(bytes),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Link(index) => link.parent = Some(*index),
            LinkAttribute::LinkNetNsId(id) => link.parent_netns = Some(*id),
            LinkAttribute::Controller(index) => link.controller = Some(*index),
            LinkAttribute::ParentDevName(name) => link.device = Some(name.clone()),
            LinkAttribute::OperState(State::Up) => link.running = true,
            LinkAttribute::LinkInfo(infos) => {
                link.kind = kind(infos);
                link.settings.read_info(infos);
            }
            _ => {}
        }
    }
    link
}

pub(super) fn is_prop_list(attribute: &LinkAttribute) -> bool {
    attribute.kind() & NLA_TYPE_MASK == PROP_LIST
}

fn altnames(properties: &DefaultNla) -> Vec<String> {
    const ALT_IFNAME: u16 = 53;
    let mut list = vec![0; properties.value_len()];
    properties.emit_value(&mut list);
    let properties = NlasIterator::new(&list).map_while(Result::ok);
    properties.filter(|property| property.kind() == ALT_IFNAME).map(|name| text(name.value())).collect()
}

fn kind(infos: &[LinkInfo]) -> Option<LinkKind> {
    let kind = infos.iter().find_map(|info| match info {
        LinkInfo::Kind(kind) => Some(kind),
        _ => None,
    })?;
    let data = infos.iter().find_map(|info| match info {
        LinkInfo::Data(data) => Some(data),
        _ => None,
    });
    Some(match kind {
        InfoKind::MacVlan => LinkKind::MacVlan(data.and_then(macvlan_mode)),
        InfoKind::IpVlan => LinkKind::IpVlan(data.and_then(ipvlan_mode)),
        InfoKind::Ipoib => LinkKind::Ipoib(data.and_then(ipoib_settings)),
        InfoKind::Vlan => LinkKind::Vlan(data.and_then(vlan_id)),
        InfoKind::Bond => LinkKind::Bond(data.and_then(bond_mode)),
        other => LinkKind::Other(other.to_string()),
    })
}

fn macvlan_mode(data: &InfoData) -> Option<MacVlanMode> {
    let InfoData::MacVlan(settings) = data else { return None };
    settings.iter().find_map(|setting| match setting {
        InfoMacVlan::Mode(mode) => Some(*mode),
        _ => None,
    })
}

fn ipvlan_mode(data: &InfoData) -> Option<IpVlanMode> {
    let InfoData::IpVlan(settings) = data else { return None };
    settings.iter().find_map(|setting| match setting {
        InfoIpVlan::Mode(mode) => Some(*mode),
        _ => None,
    })
}

fn vlan_id(data: &InfoData) -> Option<u16> {
    let InfoData::Vlan(settings) = data else { return None };
    settings.iter().find_map(|setting| match setting {
        InfoVlan::Id(id) => Some(*id),
        _ => None,
    })
}

fn bond_mode(data: &InfoData) -> Option<u8> {
    let InfoData::Bond(settings) = data else { return None };
    settings.iter().find_map(|setting| match setting {
        InfoBond::Mode(mode) => Some(u8::from(*mode)),
        _ => None,
    })
}

fn ipoib_settings(data: &InfoData) -> Option<IpoibSettings> {
    let InfoData::Ipoib(settings) = data else { return None };
    let pkey = settings.iter().find_map(|setting| match setting {
        InfoIpoib::Pkey(pkey) => Some(*pkey),
        _ => None,
    })?;
    let mode = settings.iter().find_map(|setting| match setting {
        InfoIpoib::Mode(mode) => Some(*mode),
        _ => None,
    })?;
    Some(IpoibSettings { pkey, mode })
}

#[cfg(test)]
mod tests {
    use rtnetlink::LinkUnspec;

    use super::*;

    fn ipoib(parent: Option<u32>) -> Link {
        let mut message = LinkUnspec::new_with_index(7).build();
        message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Ipoib)]));
        message.attributes.extend(parent.map(LinkAttribute::Link));
        read(&message)
    }

    #[test]
    fn the_ipoib_link_of_a_port_has_no_parent_and_a_child_has_one() {
        let (port, child) = (ipoib(None), ipoib(Some(7)));
        assert_eq!((port.is_ipoib_port(), child.is_ipoib_port()), (true, false));
        assert_eq!((port.is_ipoib_child_of(&port), child.is_ipoib_child_of(&port)), (false, true));
        assert!(!ipoib(Some(8)).is_ipoib_child_of(&port));
        let other = Link { kind: None, ..child };
        assert!(!other.is_ipoib_port() && !other.is_ipoib_child_of(&port));
    }

    #[test]
    fn a_link_is_running_if_one_of_the_two_states_says_so() {
        let running = |flags, state| {
            let mut message = LinkUnspec::new_with_index(7).build();
            message.header.flags = flags;
            message.attributes.push(LinkAttribute::OperState(state));
            let link = read(&message);
            (link.up, link.running)
        };
        assert_eq!(running(LinkFlags::Up, State::Down), (true, false));
        assert_eq!(running(LinkFlags::Up, State::Up), (true, true));
        assert_eq!(running(LinkFlags::Up | LinkFlags::Running, State::Unknown), (true, true));
        assert_eq!(running(LinkFlags::empty(), State::Down), (false, false));
    }
}
