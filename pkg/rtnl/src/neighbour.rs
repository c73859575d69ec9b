//! Neighbours: having the kernel ask for one.

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
    /// Announces an IPv4 address of a link to its neighbours: has the kernel ask who has it, which is an announcement
    /// (RFC 5227) since the kernel asks from the first of the link's addresses whose subnet has the one it asks for. So the
    /// second address of a subnet is not announced. The link must have its carrier.
    ///
    /// # Kernel
    /// `RTM_NEWNEIGH` with `NTF_USE`: `arp_solicit` sends within the call. Nobody answers; the entry, which would be asked
    /// for twice more and then stay as failed, is removed at once.
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
        let ask = Message::Neighbour(NEWNEIGH, entry(NeighbourFlags::Use));
        self.execute("announce", &object, ask, NLM_F_CREATE)?;
        let forget = Message::Neighbour(DELNEIGH, entry(NeighbourFlags::empty()));
        self.execute("forget having announced", &object, forget, 0)
    }
}
