//! The rtnetlink messages that this crate uses.
//!
//! This enum replaces `RouteNetlinkMessage`, which would add the codecs of every subsystem: 300 kB in each plugin.

use netlink::NetlinkFamily;
use netlink_packet_core::{
    DecodeError, Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, Parseable,
};
use netlink_packet_route::{
    address::AddressMessage, link::LinkMessage, neighbour::NeighbourMessage, nsid::NsidMessage,
    route::RouteMessage, rule::RuleMessage,
};

use crate::attributes;

/// `NETLINK_ROUTE`.
#[derive(Debug)]
pub(crate) struct Rtnetlink;

impl NetlinkFamily for Rtnetlink {
    const PROTOCOL: isize = 0;
    type RtnlMessage = Message;
}

/// A message with its `RTM_` number.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    Link(u16, LinkMessage),
    Address(u16, AddressMessage),
    Route(u16, RouteMessage),
    Rule(u16, RuleMessage),
    /// Only sent, never received.
    Neighbour(u16, NeighbourMessage),
    NetnsId(u16, NsidMessage),
    /// Any other message, which is skipped.
    Other(u16),
}

pub(crate) const NEWLINK: u16 = 16;
pub(crate) const DELLINK: u16 = 17;
pub(crate) const GETLINK: u16 = 18;
pub(crate) const NEWADDR: u16 = 20;
pub(crate) const DELADDR: u16 = 21;
pub(crate) const GETADDR: u16 = 22;
pub(crate) const NEWROUTE: u16 = 24;
pub(crate) const GETROUTE: u16 = 26;
pub(crate) const NEWNEIGH: u16 = 28;
pub(crate) const DELNEIGH: u16 = 29;
pub(crate) const NEWRULE: u16 = 32;
pub(crate) const DELRULE: u16 = 33;
pub(crate) const GETRULE: u16 = 34;
pub(crate) const NEWNSID: u16 = 88;
pub(crate) const GETNSID: u16 = 90;
pub(crate) const NEWLINKPROP: u16 = 108;
pub(crate) const DELLINKPROP: u16 = 109;

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        match self {
            Self::Link(kind, _)
            | Self::Address(kind, _)
            | Self::Route(kind, _)
            | Self::Rule(kind, _)
            | Self::Neighbour(kind, _)
            | Self::NetnsId(kind, _)
            | Self::Other(kind) => *kind,
        }
    }

    fn buffer_len(&self) -> usize {
        match self {
            Self::Link(_, message) => message.buffer_len(),
            Self::Address(_, message) => message.buffer_len(),
            Self::Route(_, message) => message.buffer_len(),
            Self::Rule(_, message) => message.buffer_len(),
            Self::Neighbour(_, message) => message.buffer_len(),
            Self::NetnsId(_, message) => message.buffer_len(),
            Self::Other(_) => 0,
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        match self {
            Self::Link(_, message) => message.emit(buffer),
            Self::Address(_, message) => message.emit(buffer),
            Self::Route(_, message) => message.emit(buffer),
            Self::Rule(_, message) => message.emit(buffer),
            Self::Neighbour(_, message) => message.emit(buffer),
            Self::NetnsId(_, message) => message.emit(buffer),
            Self::Other(_) => {}
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let kind = header.message_type;
        Ok(match kind {
            NEWLINK..=GETLINK => Self::Link(kind, attributes::parse(payload)?),
            NEWADDR..=GETADDR if is_ip(payload) => Self::Address(kind, AddressMessage::parse(payload)?),
            NEWRULE..=GETRULE if is_ip(payload) => Self::Rule(kind, RuleMessage::parse(payload)?),
            NEWROUTE..=GETROUTE if is_ip(payload) => Self::Route(kind, RouteMessage::parse(payload)?),
            NEWNSID..=GETNSID => Self::NetnsId(kind, NsidMessage::parse(payload)?),
            _ => Self::Other(kind),
        })
    }
}

/// Whether an address, a route or a rule belongs to IPv4 or IPv6. A list has those of every family, such as MCTP, whose one-byte
/// addresses the codec cannot decode: then decoding of the whole list would fail.
fn is_ip(payload: &[u8]) -> bool {
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    matches!(payload.first(), Some(&(AF_INET | AF_INET6)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: u16, payload: &[u8]) -> Result<Message, DecodeError> {
        let mut header = NetlinkHeader::default();
        header.message_type = kind;
        Message::deserialize(&header, payload)
    }

    #[test]
    fn an_address_of_another_family_does_not_cost_the_list() {
        let mctp = [45, 0, 0, 0, 2, 0, 0, 0, 5, 0, 2, 0, 9, 0, 0, 0]; // IFA_LOCAL 9 of link 2
        assert!(matches!(parse(NEWADDR, &mctp), Ok(Message::Other(NEWADDR))));
        assert!(matches!(parse(NEWROUTE, &mctp), Ok(Message::Other(NEWROUTE))));
    }

    #[test]
    fn an_ip_address_is_read() {
        let ipv4 = [2, 16, 0, 0, 2, 0, 0, 0, 8, 0, 2, 0, 172, 81, 0, 100];
        let Ok(Message::Address(NEWADDR, message)) = parse(NEWADDR, &ipv4) else { panic!("no address") };
        assert_eq!(crate::address::read(&message).unwrap().network, "172.81.0.100/16".parse().unwrap());
    }
}
