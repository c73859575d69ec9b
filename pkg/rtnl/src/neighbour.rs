//! Neighbour entries, used to make the kernel announce an address or ask who has it.

use std::net::Ipv4Addr;

use identifiers::MacAddr;

use netlink_packet_core::NLM_F_CREATE;
use netlink_packet_route::{
    AddressFamily,
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage},
};

use crate::{
    Error, Handle,
    message::{DELNEIGH, GETNEIGH, Message, NEWNEIGH},
};

impl Handle {
    /// Announces an IPv4 address of a link to its neighbours. The kernel sends an ARP request for the address, from the first
    /// of the link's addresses whose subnet contains it. If that is the same address, the request is an announcement (RFC
    /// 5227); so the second address of a subnet is not announced. The link must have a carrier.
    ///
    /// # Kernel
    /// `RTM_NEWNEIGH` with `NTF_USE`: `arp_solicit` sends within the call. There is no reply. The entry is removed at once,
    /// as it would cause two more requests and then stay in the state failed.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn request_announcement(&self, index: u32, address: Ipv4Addr) -> Result<(), Error> {
        let object = format!("address {address}");
        let create = Message::Neighbour(NEWNEIGH, entry(index, address, NeighbourFlags::Use));
        self.execute("announce", &object, create, NLM_F_CREATE)?;
        let delete = Message::Neighbour(DELNEIGH, entry(index, address, NeighbourFlags::empty()));
        self.execute("delete the neighbour entry of", &object, delete, 0)
    }

    /// Asks the neighbours of a link who has an IPv4 address. If no address of the link has it in its subnet, the request is a probe
    /// (RFC 5227): its sender is 0.0.0.0. The link must have a carrier. [`Handle::neighbour`] returns what was answered.
    ///
    /// # Kernel
    /// As [`Handle::request_announcement`], but the entry stays.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn request_neighbour(&self, index: u32, address: Ipv4Addr) -> Result<(), Error> {
        let create = Message::Neighbour(NEWNEIGH, entry(index, address, NeighbourFlags::Use));
        self.execute("probe", &format!("address {address}"), create, NLM_F_CREATE)
    }

    /// Returns the MAC address of the neighbour that has an IPv4 address; `None` if none has answered yet.
    ///
    /// # Kernel
    /// `RTM_GETNEIGH`: `NDA_LLADDR` of the entry.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn neighbour(&self, index: u32, address: Ipv4Addr) -> Result<Option<MacAddr>, Error> {
        let mut request = NeighbourMessage::default();
        request.header.family = AddressFamily::Inet;
        let request = Message::Neighbour(GETNEIGH, request);
        self.dump("list", &"neighbours", request, |found: &mut Option<MacAddr>, message| {
            if let Message::Neighbour(_, message) = message
                && message.header.ifindex == index
                && has(&message, address)
            {
                *found = mac(&message);
            }
        })
    }

    /// Removes the entry of an IPv4 address. Succeeds if there is none.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn remove_neighbour(&self, index: u32, address: Ipv4Addr) -> Result<(), Error> {
        let delete = Message::Neighbour(DELNEIGH, entry(index, address, NeighbourFlags::empty()));
        match self.execute("delete the neighbour entry of", &format!("address {address}"), delete, 0) {
            Err(error) if error.is_not_found() => Ok(()),
            removed => removed,
        }
    }
}

fn entry(index: u32, address: Ipv4Addr, flags: NeighbourFlags) -> NeighbourMessage {
    let mut entry = NeighbourMessage::default();
    (entry.header.family, entry.header.ifindex) = (AddressFamily::Inet, index);
    entry.header.flags = flags;
    entry.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::Inet(address)));
    entry
}

fn has(message: &NeighbourMessage, address: Ipv4Addr) -> bool {
    let destination = NeighbourAttribute::Destination(NeighbourAddress::Inet(address));
    message.attributes.contains(&destination)
}

/// Returns the address of an entry with one of six bytes.
fn mac(message: &NeighbourMessage) -> Option<MacAddr> {
    message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => MacAddr::from_bytes(bytes),
        _ => None,
    })
}
