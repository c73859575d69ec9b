//! The socket to the kernel's RDMA core.

use netlink::NetlinkFamily;
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
    /// A set of counters with more than some 2,600 queue pairs fits into no datagram, and each attempt may cost
    /// the card's firmware commands. A million queue pairs have 2,500 datagrams.
    const MAX_DATAGRAMS: usize = 4096;
}

/// A socket that sees the RDMA devices of the namespace it was opened in.
pub type Socket = netlink::Socket<RdmaFamily>;

/// Opens a socket in the calling thread's namespace.
///
/// Looks into sysfs first. Without that, the kernel would start `modprobe` for the family on a node that has no
/// RDMA, which costs each ADD of a plain macvlan a process.
///
/// # Errors
/// [`Error::NoRdma`] if the RDMA core is not loaded.
pub fn open(sysfs: &Sysfs) -> Result<Socket, Error> {
    if sysfs.has_rdma()? { open_here() } else { Err(Error::NoRdma) }
}

/// Opens a socket in another namespace. It may be used from anywhere to list and to ask, but not to move a
/// device: see [`crate::move_device_from`].
///
/// # Errors
/// [`Error::NoRdma`]; [`Error::NetNs`] if the namespace cannot be entered.
pub fn open_in(namespace: &NetNs) -> Result<Socket, Error> {
    namespace.run(open_here)?
}

pub(crate) fn open_here() -> Result<Socket, Error> {
    Socket::open().map_err(|error| match error.errno() {
        Some(Errno::EPROTONOSUPPORT) => Error::NoRdma,
        _ => error.into(),
    })
}

pub(crate) fn message(command: NldevCommand, attributes: Vec<NldevAttribute>) -> RdmaMessage {
    NldevMessage::new(command, attributes).into()
}

/// The attributes of an answer. Its command is not looked at: the kernel answers `PORT_GET` as `GET`.
pub(crate) fn attributes(answer: RdmaMessage) -> Vec<NldevAttribute> {
    match answer {
        RdmaMessage::Nldev(message) => message.attributes,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_the_rdma_core_is_told_by_sysfs_alone() {
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(open(&Sysfs::at(empty.path())), Err(Error::NoRdma)));
    }
}
