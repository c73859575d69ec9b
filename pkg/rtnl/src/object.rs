//! The objects in the kernel's replies.

use ipnetwork::IpNetwork;
use netlink::{Replies, ReplyError};

use identifiers::VfIndex;

use crate::{Link, Route, VfSettings, address, link, message::Message, route, vf};

/// The object of one reply message.
#[derive(Debug, Clone)]
pub enum RtnlObject {
    /// A link, and its VFs if they were requested.
    Link(Box<Link>, Vec<(VfIndex, VfSettings)>),
    /// An address of a link.
    Address(IpNetwork),
    /// A unicast route.
    Route(Route),
    /// Any other object, which is not decoded.
    Other,
}

impl RtnlObject {
    /// Parses the replies to the request with the number `sequence` in a datagram.
    ///
    /// # Errors
    /// If the reply is an error, or the datagram is malformed.
    pub fn parse(datagram: &[u8], sequence: u32) -> Result<Vec<Self>, ReplyError> {
        let replies = Replies::parse(datagram, sequence)?;
        Ok(replies.messages.iter().map(Self::of).collect())
    }

    fn of(message: &Message) -> Self {
        match message {
            Message::Link(_, message) => Self::Link(Box::new(link::read(message)), vf::all(message)),
            Message::Address(_, message) => {
                address::read(message).map_or(Self::Other, |address| Self::Address(address.network))
            }
            Message::Route(_, message) => route::read(message).map_or(Self::Other, Self::Route),
            Message::Rule(..) | Message::Neighbour(..) | Message::NetnsId(..) | Message::Other(_) => {
                Self::Other
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};
    use netlink_packet_route::link::{LinkAttribute, LinkVfInfo};
    use rtnetlink::LinkUnspec;

    use super::*;
    use crate::{
        RouteScopeId, VfSetting, VfVlanTag,
        message::{NEWADDR, NEWLINK, NEWROUTE},
    };

    /// Serializes a message and parses it as a reply.
    fn echoed(message: Message) -> RtnlObject {
        let mut header = NetlinkHeader::default();
        header.sequence_number = 7;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        RtnlObject::parse(&bytes, 7).unwrap().remove(0)
    }

    #[test]
    fn a_vfs_settings_are_read_as_they_are_written() {
        let tag = |id: i64, qos: i64, proto: &str| VfVlanTag {
            id: id.try_into().unwrap(),
            qos: qos.try_into().unwrap(),
            proto: proto.parse().unwrap(),
        };
        for change in [
            VfSetting::Vlan(tag(0, 0, "802.1q")),
            VfSetting::Vlan(tag(4094, 7, "802.1ad")),
            VfSetting::Mac("c2:11:22:33:44:55".parse().unwrap()),
            VfSetting::Rate(1, u32::MAX),
            VfSetting::SpoofCheck(true),
            VfSetting::Trust(false),
            VfSetting::LinkState(2),
        ] {
            let mac = VfSetting::Mac("c2:11:22:33:44:55".parse().unwrap());
            let infos = vec![mac.attribute(VfIndex(3)), change.attribute(VfIndex(3))];
            let other = vec![mac.attribute(VfIndex(4))];
            let vfs = LinkAttribute::VfInfoList(vec![LinkVfInfo(infos), LinkVfInfo(other)]);
            let message = LinkUnspec::new_with_index(2).append_extra_attribute(vfs).build();
            let RtnlObject::Link(_, vfs) = echoed(Message::Link(NEWLINK, message)) else { panic!("no link") };
            let [(VfIndex(3), settings), (VfIndex(4), _)] = vfs.as_slice() else { panic!("{vfs:?}") };
            assert!(change.is_in_place(settings), "{change:?} is read as {settings:?}");
        }
    }

    #[test]
    fn addresses_and_routes_are_read_as_they_are_written() {
        for text in ["172.81.0.100/16", "10.0.0.1/31", "255.255.255.255/32", "fd00::5/64", "::/0"] {
            let network: IpNetwork = text.parse().unwrap();
            let address = echoed(Message::Address(NEWADDR, address::message(2, network)));
            assert!(matches!(address, RtnlObject::Address(read) if read == network), "{address:?}");
            let gateway = if network.is_ipv4() { "10.0.0.1" } else { "fd00::1" };
            let route = Route {
                dst: IpNetwork::new(network.network(), network.prefix()).unwrap(),
                gateway: Some(gateway.parse().unwrap()),
                link: 7,
                priority: Some(u32::MAX),
                table: Some(1000),
                scope: Some(RouteScopeId(0)),
                mtu: None, // not read from replies
                advmss: None,
            };
            let read = echoed(Message::Route(NEWROUTE, route::message(&route)));
            assert!(matches!(&read, RtnlObject::Route(read) if *read == route), "{read:?}");
        }
    }
}
