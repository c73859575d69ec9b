//! Addresses of links.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
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
    pub(crate) permanent: bool,
    pub(crate) tentative: bool,
    pub(crate) duplicate: bool,
}

impl Handle {
    /// Adds an address to a link, with the broadcast address of its IPv4 subnet (none for /31 and /32).
    ///
    /// # Errors
    /// Exists if the link already has it; any other of [`Error`].
    pub fn add_address(&self, index: u32, address: IpNetwork) -> Result<(), Error> {
        let message = message(index, address);
        let object = format!("address {address}");
        self.execute("add", &object, Message::Address(NEWADDR, message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes an address from a link. Succeeds if it is already gone: the kernel removes the other IPv4 addresses of a
    /// subnet with the first one, and the IPv6 addresses of a link when it is set down.
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

    /// Returns the addresses of a link, except the IPv6 link-local ones, which the kernel adds itself.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn addresses(&self, index: u32) -> Result<Vec<IpNetwork>, Error> {
        let all = self.all_addresses(index)?;
        Ok(all.into_iter().filter(|a| !a.link_local || a.network.is_ipv4()).map(|a| a.network).collect())
    }

    /// Returns the permanent addresses of a link: those of [`Handle::addresses`] without the temporary ones of DHCP or router
    /// advertisements.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn permanent_addresses(&self, index: u32) -> Result<Vec<IpNetwork>, Error> {
        let mut all = self.all_addresses(index)?;
        all.retain(|a| a.permanent && (!a.link_local || a.network.is_ipv4()));
        Ok(all.into_iter().map(|a| a.network).collect())
    }

    /// Returns the addresses of a link that the kernel still checks for duplicates (`IFA_F_TENTATIVE`), and those that are
    /// duplicates (`IFA_F_DADFAILED`).
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
        // A node may have thousands of addresses (kube-proxy's IPVS mode adds one for each service).
        self.filter_lists();
        let mut request = AddressMessage::default();
        request.header.index = index;
        let request = Message::Address(GETADDR, request);
        self.dump("list", &"addresses", request, |found: &mut Vec<Address>, message| {
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
    // IPv4 has its own address in IFA_LOCAL (IFA_ADDRESS is the peer's); IPv6 has only IFA_ADDRESS.
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
        permanent: flags.contains(AddressHeaderFlags::Permanent) && !is_of_a_router(message),
        tentative: flags.contains(AddressHeaderFlags::Tentative),
        duplicate: flags.contains(AddressHeaderFlags::Dadfailed),
    })
}

/// Whether an address was derived from a router's prefix, whose lifetime may be unlimited: then the kernel also manages
/// temporary addresses of that prefix (`IFA_F_MANAGETEMPADDR`), for itself or NetworkManager.
fn is_of_a_router(message: &AddressMessage) -> bool {
    message.attributes.iter().any(|attribute| {
        matches!(attribute, AddressAttribute::Flags(flags) if flags.contains(AddressFlags::Managetempaddr))
    })
}

#[cfg(test)]
mod tests {
    use std::{process::Command, thread};

    use nix::sched::{CloneFlags, unshare};

    use super::*;

    /// Runs `work` in a namespace with a link of many addresses and one of few, whose index is 7.
    fn among_many(work: impl FnOnce(&Handle) + Send + 'static) {
        let node = thread::spawn(move || {
            #[expect(clippy::disallowed_methods, reason = "the thread ends there")]
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let links = Handle::open().unwrap();
            ip("link add vf0 index 7 type veth peer name far");
            for n in 0..1000_u32 {
                links.add_address(1, format!("10.{}.{}.1/32", n / 250, n % 250).parse().unwrap()).unwrap();
            }
            work(&links);
        });
        node.join().unwrap();
    }

    fn ip(args: &str) {
        assert!(Command::new("ip").args(args.split(' ')).status().unwrap().success(), "ip {args}");
    }

    #[test]
    fn the_addresses_of_other_links_are_not_listed() {
        among_many(|links| {
            ip("address add 10.9.0.2/24 dev vf0");
            links.filter_lists();
            let mut request = AddressMessage::default();
            request.header.index = 7;
            let count = |all: &mut usize, _| *all += 1;
            let listed = links.dump("list", &"addresses", Message::Address(GETADDR, request), count).unwrap();
            assert_eq!(listed, 1);
            assert_eq!(links.addresses(7).unwrap(), ["10.9.0.2/24".parse().unwrap()]);
            assert_eq!(links.addresses(1).unwrap().len(), 1000);
        });
    }

    #[test]
    fn what_dhcp_or_a_router_gave_is_not_permanent() {
        among_many(|links| {
            ip("address add 10.9.0.2/24 dev vf0 valid_lft 3600 preferred_lft 3600");
            ip("address add fd00:9::2/64 dev vf0 nodad valid_lft 3600 preferred_lft 1800");
            ip("address add fd00:9::3/64 dev vf0 nodad mngtmpaddr");
            assert_eq!(links.addresses(7).unwrap().len(), 3);
            assert!(links.permanent_addresses(7).unwrap().is_empty());
            ip("address add fd00:9::4/64 dev vf0 nodad");
            ip("address add 169.254.7.7/16 dev vf0 scope link");
            let permanent = ["169.254.7.7/16", "fd00:9::4/64"].map(|text| text.parse().unwrap());
            assert_eq!(links.permanent_addresses(7).unwrap(), permanent);
        });
    }

    #[test]
    fn an_address_that_is_gone_is_removed_and_that_of_a_missing_link_is_an_error() {
        among_many(|links| {
            let address = "10.9.0.2/24".parse().unwrap();
            links.add_address(7, address).unwrap();
            assert!(links.add_address(7, address).unwrap_err().is_exists());
            links.remove_address(7, address).unwrap();
            links.remove_address(7, address).unwrap();
            assert!(links.addresses(7).unwrap().is_empty());
            assert!(links.remove_address(99, address).unwrap_err().is_not_found());
        });
    }

    #[test]
    fn a_duplicate_is_not_being_checked_any_more() {
        let flags = |flags| {
            let mut message = message(7, "fd00::5/64".parse().unwrap());
            message.header.flags = flags;
            let address = read(&message).unwrap();
            (address.tentative, address.duplicate)
        };
        assert_eq!(flags(AddressHeaderFlags::Permanent), (false, false));
        assert_eq!(flags(AddressHeaderFlags::Tentative), (true, false));
        assert_eq!(flags(AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed), (true, true));
    }
}
