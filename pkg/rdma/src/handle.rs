//! A handle to the RDMA devices of one network namespace.

use std::{cell::RefCell, fmt};

use netlink::NetlinkFamily;
use netlink_packet_core::NetlinkDeserializable;
use netlink_packet_rdma::{NETLINK_RDMA, NldevAttribute, NldevCommand, NldevMessage, RdmaMessage};
use netns::NetNs;
use nix::errno::Errno;
use sysfs::Sysfs;

use crate::Error;

/// The RDMA netlink family.
#[derive(Debug)]
pub struct RdmaFamily;

impl NetlinkFamily for RdmaFamily {
    const PROTOCOL: isize = NETLINK_RDMA;
    type RtnlMessage = RdmaMessage;
    /// A counter set with more than about 2,600 queue pairs does not fit into one datagram, and each attempt may cost
    /// the card's firmware commands. A million queue pairs need 2,500 datagrams.
    const MAX_DATAGRAMS: usize = 4096;
}

type Socket = netlink::Socket<RdmaFamily>;

/// A handle to the RDMA devices that one network namespace sees.
///
/// It may be used from any namespace to list and to query, but not to move a device: see [`crate::move_device_from`].
#[derive(Debug)]
pub struct Handle {
    socket: RefCell<Socket>,
}

impl Handle {
    /// Opens a handle in the calling thread's namespace.
    ///
    /// Reads sysfs first: otherwise the kernel would start `modprobe` for the family on a node that has no RDMA, which
    /// costs each ADD of a plain macvlan a process.
    ///
    /// # Errors
    /// [`Error::NoRdma`] if the RDMA core is not loaded.
    pub fn open(sysfs: &Sysfs) -> Result<Self, Error> {
        if sysfs.has_rdma()? { Self::open_here() } else { Err(Error::NoRdma) }
    }

    /// Opens a handle in another namespace.
    ///
    /// # Errors
    /// [`Error::NoRdma`]; [`Error::NetNs`] if the namespace cannot be entered.
    pub fn open_in(netns: &NetNs) -> Result<Self, Error> {
        netns.run(Self::open_here)?
    }

    /// Opens a handle in the calling thread's namespace without reading sysfs first, for callers that know that the RDMA
    /// core is loaded.
    ///
    /// # Errors
    /// [`Error::NoRdma`].
    pub fn open_here() -> Result<Self, Error> {
        let socket = Socket::open().map_err(|error| match error.errno() {
            Some(Errno::EPROTONOSUPPORT) => Error::NoRdma,
            _ => error.into(),
        })?;
        Ok(Self { socket: RefCell::new(socket) })
    }

    pub(crate) fn execute(
        &self,
        operation: &'static str,
        object: &dyn fmt::Display,
        request: RdmaMessage,
    ) -> Result<(), netlink::Error> {
        self.socket.borrow_mut().execute(operation, object, request, 0)
    }

    pub(crate) fn get(
        &self,
        operation: &'static str,
        object: &dyn fmt::Display,
        request: RdmaMessage,
    ) -> Result<RdmaMessage, netlink::Error> {
        self.socket.borrow_mut().get(operation, object, request)
    }

    pub(crate) fn get_at_once<M: NetlinkDeserializable>(
        &self,
        operation: &'static str,
        object: &dyn fmt::Display,
        request: RdmaMessage,
    ) -> Result<M, netlink::Error> {
        self.socket.borrow_mut().get_at_once(operation, object, request)
    }

    pub(crate) fn dump<T: Default>(
        &self,
        operation: &'static str,
        object: &dyn fmt::Display,
        request: RdmaMessage,
        visit: impl FnMut(&mut T, RdmaMessage),
    ) -> Result<T, netlink::Error> {
        self.socket.borrow_mut().dump(operation, object, request, visit)
    }
}

/// A request of the `NLDEV` client.
pub(crate) fn message(command: NldevCommand, attributes: Vec<NldevAttribute>) -> RdmaMessage {
    NldevMessage::new(command, attributes).into()
}

/// The attributes of a reply. Its command is not checked: the kernel replies to `PORT_GET` with `GET`.
pub(crate) fn attributes(reply: RdmaMessage) -> Vec<NldevAttribute> {
    match reply {
        RdmaMessage::Nldev(message) => message.attributes,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_rdma_core_in_sysfs_no_socket_is_opened() {
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(Handle::open(&Sysfs::at(empty.path())), Err(Error::NoRdma)));
    }
}
