//! The ID that one network namespace has for another (`RTM_GETNSID`).

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};

use crate::{
    Error, Handle,
    message::{GETNSID, Message},
};

impl Handle {
    /// Returns the ID that the handle's namespace has for another one, as in [`Link::parent_netns`](crate::Link::parent_netns); `None` if it
    /// has none, so that no link in it has a parent there.
    ///
    /// The kernel assigns an ID when it first lists such a link: list the links before.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn netns_id(&self, netns: BorrowedFd<'_>) -> Result<Option<i32>, Error> {
        let mut message = NsidMessage::default();
        message.attributes.push(NsidAttribute::Fd(netns.as_raw_fd().cast_unsigned()));
        let reply = self.get("find", &"ID of a network namespace", Message::NetnsId(GETNSID, message))?;
        let Message::NetnsId(_, reply) = reply else { return Ok(None) };
        let id = |attribute: &NsidAttribute| match attribute {
            // -1: not assigned.
            NsidAttribute::Id(id) => Some(*id).filter(|id| *id >= 0),
            _ => None,
        };
        Ok(reply.attributes.iter().find_map(id))
    }
}
