//! One answer of the kernel, in our terms.

use ipnetwork::IpNetwork;
use netlink::{Answers, NoAnswer};

use crate::{Link, Route, VfIndex, VfSettings, address, link, message::Message, route, vf};

/// What an answer tells of.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A link, and its VFs if they were asked for.
    Link(Box<Link>, Vec<(VfIndex, VfSettings)>),
    /// An address of a link.
    Address(IpNetwork),
    /// A unicast route.
    Route(Route),
    /// Something we do not look at.
    Other,
}

impl Answer {
    /// What a datagram tells that answers the request of the number `sequence`.
    ///
    /// # Errors
    /// That the kernel refused, or that it cannot be understood.
    pub fn parse(datagram: &[u8], sequence: u32) -> Result<Vec<Self>, NoAnswer> {
        let answers = Answers::parse(datagram, sequence)?;
        Ok(answers.messages.iter().map(Self::of).collect())
    }

    fn of(message: &Message) -> Self {
        match message {
            Message::Link(_, message) => Self::Link(Box::new(link::read(message)), vf::all(message)),
            Message::Address(_, message) => {
                address::read(message).map_or(Self::Other, |address| Self::Address(address.network))
            }
            Message::Route(_, message) => route::read(message).map_or(Self::Other, Self::Route),
            Message::Other(_) => Self::Other,
        }
    }
}
