//! Neighbour entries, used to make the kernel announce an address.

use std::net::Ipv4Addr;

use netlink_packet_core::NLM_F_CREATE;
use netlink_packet_route::{
    AddressFamily,
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage},
};

use crate::{
    Error, Handle,
    message::{DELNEIGH, Message, NEWNEIGH},
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
        let entry = |flags| {
            let mut entry = NeighbourMessage::default();
            (entry.header.family, entry.header.ifindex) = (AddressFamily::Inet, index);
            entry.header.flags = flags;
            entry.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::Inet(address)));
            entry
        };
        let create = Message::Neighbour(NEWNEIGH, entry(NeighbourFlags::Use));
        self.execute("announce", &object, create, NLM_F_CREATE)?;
        let delete = Message::Neighbour(DELNEIGH, entry(NeighbourFlags::empty()));
        self.execute("delete the neighbour entry of", &object, delete, 0)
    }
}
