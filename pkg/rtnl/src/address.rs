//! Addresses of links.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use nix::errno::Errno;
use rtnetlink::AddressMessageBuilder;

use crate::{
    Error, Handle,
    message::{DELADDR, GETADDR, Message, NEWADDR},
};

/// An address of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) index: u32,
    pub(crate) network: IpNetwork,
    pub(crate) link_local: bool,
    pub(crate) tentative: bool,
    pub(crate) duplicate: bool,
}

impl Handle {
    /// Gives a link an address, with the broadcast address that its IPv4 subnet has (none for /31 and /32).
    ///
    /// # Errors
    /// Exists if the link has it; any other of [`Error`].
    pub fn add_address(&self, index: u32, address: IpNetwork) -> Result<(), Error> {
        let message = message(index, address);
        let object = format!("address {address}");
        self.execute("add", &object, Message::Address(NEWADDR, message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Takes an address from a link. It may be gone already: with an IPv4 address go the others of its subnet, and with
    /// a link that is set down go those of IPv6.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn remove_address(&self, index: u32, address: IpNetwork) -> Result<(), Error> {
        let message = Message::Address(DELADDR, message(index, address));
        match self.execute("remove", &format!("address {address}"), message, 0) {
            Err(Error::Netlink(error)) if error.errno() == Some(Errno::EADDRNOTAVAIL) => Ok(()),
            removed => removed,
        }
    }

    /// The addresses of a link, without the ones the kernel makes itself (IPv6 link-local).
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn addresses(&self, index: u32) -> Result<Vec<IpNetwork>, Error> {
        let all = self.all_addresses(index)?;
        Ok(all.into_iter().filter(|a| !a.link_local || a.network.is_ipv4()).map(|a| a.network).collect())
    }

    /// The addresses of a link that the kernel still checks for duplicates, and those it found to be ones.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn unchecked_addresses(&self, index: u32) -> Result<(Vec<IpNetwork>, Vec<IpNetwork>), Error> {
        let all = self.all_addresses(index)?;
        let networks =
            |wanted: fn(&Address) -> bool| all.iter().filter(|a| wanted(a)).map(|a| a.network).collect();
        Ok((networks(|a| a.tentative && !a.duplicate), networks(|a| a.duplicate)))
    }

    fn all_addresses(&self, index: u32) -> Result<Vec<Address>, Error> {
        let message = Message::Address(GETADDR, AddressMessage::default());
        self.dump("list", &"addresses", message, |found: &mut Vec<Address>, message| {
            if let Message::Address(_, message) = message
                && message.header.index == index
            {
                found.extend(read(&message));
            }
        })
    }
}

pub(crate) fn message(index: u32, address: IpNetwork) -> AddressMessage {
    match address {
        IpNetwork::V4(v4) => AddressMessageBuilder::<std::net::Ipv4Addr>::new()
            .index(index)
            .address(v4.ip(), v4.prefix())
            .build(),
        IpNetwork::V6(v6) => AddressMessageBuilder::<std::net::Ipv6Addr>::new()
            .index(index)
            .address(v6.ip(), v6.prefix())
            .build(),
    }
}

pub(crate) fn read(message: &AddressMessage) -> Option<Address> {
    // IPv4 has the own address in IFA_LOCAL (IFA_ADDRESS is the peer's); IPv6 has only IFA_ADDRESS.
    let find = |local: bool| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(ip) if local => Some(*ip),
            AddressAttribute::Address(ip) if !local => Some(*ip),
            _ => None,
        })
    };
    let ip: IpAddr = find(true).or_else(|| find(false))?;
    let flags = message.header.flags;
    Some(Address {
        index: message.header.index,
        network: IpNetwork::new(ip, message.header.prefix_len).ok()?,
        link_local: message.header.scope == AddressScope::Link,
        tentative: flags.contains(AddressHeaderFlags::Tentative),
        duplicate: flags.contains(AddressHeaderFlags::Dadfailed),
    })
}
