//! The socket that ethtool requests are sent through.

use std::{
    cell::RefCell,
    os::fd::{AsFd, OwnedFd},
};

use identifiers::LinkName;
use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket},
};

use crate::{
    Error,
    kernel::{Ioctl, IoctlBuffer, ioctl},
};

/// A socket for requests to the links of one network namespace: that of the thread that opened it.
#[derive(Debug)]
pub struct EthtoolSocket {
    fd: OwnedFd,
    /// Memory of the last request, for the next one.
    memory: RefCell<Option<IoctlBuffer>>,
}

/// A command of `linux/ethtool.h`: its number and its name, such as `ETHTOOL_GSTATS`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EthtoolCommand {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
}

impl EthtoolSocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn open() -> Result<Self, Error> {
        // Any socket accepts the ioctl. Netlink sockets also exist in kernels without IPv4.
        let (family, kind) = (AddressFamily::Netlink, SockType::Raw);
        let fd =
            socket(family, kind, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute).map_err(Error::Open)?;
        Ok(Self { fd, memory: RefCell::default() })
    }

    /// Sends a command to a link. `room` is the length of request and reply in bytes; `fill` writes the fields after the
    /// command's number.
    ///
    /// Returns `None` if the reply is longer than `room`.
    pub(crate) fn request(
        &self,
        link: &LinkName,
        command: EthtoolCommand,
        room: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let fill = |request: &mut [u8]| {
            put(request, 0, command.number);
            fill(request);
        };
        self.ioctl(link, Ioctl::Ethtool, command.name, room, fill)
    }

    /// Sends an ioctl to a link, as [`Self::request`]. `operation` is its name in errors.
    pub(crate) fn ioctl(
        &self,
        link: &LinkName,
        kind: Ioctl,
        operation: &'static str,
        room: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let refused = |errno| match errno {
            Errno::ENODEV => Error::NoSuchLink { link: link.clone() },
            errno => Error::Refused { operation, link: link.clone(), errno },
        };
        let mut memory = self.memory.borrow_mut();
        let request = memory.take().map_or_else(|| IoctlBuffer::zeroed(room), |former| former.resized(room));
        let mut request = request.map_err(refused)?;
        fill(&mut request);
        let reply = match ioctl(self.fd.as_fd(), kind, link, &mut request) {
            Ok(()) => Ok(Some(request.to_vec())),
            Err(Errno::EFAULT) => Ok(None),
            Err(errno) => Err(refused(errno)),
        };
        *memory = Some(request);
        reply
    }
}

/// Writes a `u32` field of a kernel structure at `offset`, in native byte order.
pub(crate) fn put(bytes: &mut [u8], offset: usize, number: u32) {
    if let Some(field) = bytes[offset..].first_chunk_mut() {
        *field = number.to_ne_bytes();
    }
}

/// Reads a `u32` field of a kernel structure at `offset`; 0 beyond its end.
pub(crate) fn number(bytes: &[u8], offset: usize) -> u32 {
    let field = bytes.get(offset..).and_then(<[u8]>::first_chunk);
    field.map_or(0, |field| u32::from_ne_bytes(*field))
}
