//! The rtnetlink messages we use.
//!
//! An enum of our own, because `RouteNetlinkMessage` brings the codecs of every subsystem: 300 kB more in
//! each plugin.

use netlink::Family;
use netlink_packet_core::{
    DecodeError, Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, Parseable,
};
use netlink_packet_route::{address::AddressMessage, link::LinkMessage, route::RouteMessage};

/// `NETLINK_ROUTE`.
#[derive(Debug)]
pub(crate) struct Rtnetlink;

impl Family for Rtnetlink {
    const PROTOCOL: isize = 0;
    type Message = Message;
}

/// What a message is about, with its `RTM_` number.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    Link(u16, LinkMessage),
    Address(u16, AddressMessage),
    Route(u16, RouteMessage),
    /// Something we never ask for; it is skipped.
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
pub(crate) const NEWLINKPROP: u16 = 108;
pub(crate) const DELLINKPROP: u16 = 109;

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        match self {
            Self::Link(kind, _) | Self::Address(kind, _) | Self::Route(kind, _) | Self::Other(kind) => *kind,
        }
    }

    fn buffer_len(&self) -> usize {
        match self {
            Self::Link(_, message) => message.buffer_len(),
            Self::Address(_, message) => message.buffer_len(),
            Self::Route(_, message) => message.buffer_len(),
            Self::Other(_) => 0,
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        match self {
            Self::Link(_, message) => message.emit(buffer),
            Self::Address(_, message) => message.emit(buffer),
            Self::Route(_, message) => message.emit(buffer),
            Self::Other(_) => {}
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let kind = header.message_type;
        Ok(match kind {
            NEWLINK..=GETLINK => Self::Link(kind, LinkMessage::parse(payload)?),
            NEWADDR..=GETADDR => Self::Address(kind, AddressMessage::parse(payload)?),
            NEWROUTE..=GETROUTE => Self::Route(kind, RouteMessage::parse(payload)?),
            _ => Self::Other(kind),
        })
    }
}
