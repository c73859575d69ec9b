//! The ioctls of a link's driver, with a buffer that the kernel cannot write beyond.
//!
//! The kernel receives an address without a length. Before 6.19 it writes as many names or values as the driver has at
//! that moment, regardless of the count in the request. The driver has more of them if queues were added after the
//! count was read. Headroom would only make an overflow rare. Therefore a request ends at the start of an inaccessible
//! page, and the kernel returns `EFAULT` if the reply does not fit.

use std::{
    ffi::c_void,
    num::NonZeroUsize,
    ops::{Deref, DerefMut},
    os::fd::{AsRawFd, BorrowedFd},
    ptr::NonNull,
    slice,
};

use identifiers::LinkName;
use nix::{
    errno::Errno,
    libc,
    sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap},
};

/// `linux/sockios.h`.
const SIOCSHWTSTAMP: u16 = 0x89b0;
const SIOCGHWTSTAMP: u16 = 0x89b1;

nix::ioctl_readwrite_bad!(siocethtool, libc::SIOCETHTOOL, libc::ifreq);
nix::ioctl_readwrite_bad!(siocghwtstamp, SIOCGHWTSTAMP, libc::ifreq);
nix::ioctl_readwrite_bad!(siocshwtstamp, SIOCSHWTSTAMP, libc::ifreq);

/// An ioctl that passes the kernel an address in `ifr_data`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ioctl {
    /// `SIOCETHTOOL`: a command of `linux/ethtool.h`, which begins with its number.
    Ethtool,
    /// `SIOCGHWTSTAMP`: reads a `struct hwtstamp_config`.
    GetTimestamps,
    /// `SIOCSHWTSTAMP`: sets a `struct hwtstamp_config`.
    SetTimestamps,
}

/// The largest page size of any architecture, in bytes.
const PAGE: usize = 64 * 1024;

/// The alignment of the structures of `linux/ethtool.h`, in bytes.
const ALIGNMENT: usize = 8;

/// A request, which the kernel overwrites with the reply. An inaccessible page follows it.
#[derive(Debug)]
pub(crate) struct IoctlBuffer {
    mapping: NonNull<c_void>,
    mapped: NonZeroUsize,
    offset: usize,
    length: usize,
}

impl IoctlBuffer {
    /// Returns a request of `length` zeroed bytes, in the same memory if they fit into it.
    pub(crate) fn resized(mut self, length: usize) -> Result<Self, Errno> {
        let writable = self.mapped.get() - PAGE;
        match length.checked_next_multiple_of(ALIGNMENT) {
            Some(taken) if taken <= writable => {
                (self.offset, self.length) = (writable - taken, length);
                self.fill(0);
                Ok(self)
            }
            _ => Self::zeroed(length),
        }
    }

    /// Allocates `length` zeroed bytes. Fails with `ENOMEM` if `length` is too large.
    pub(crate) fn zeroed(length: usize) -> Result<Self, Errno> {
        let taken = length.checked_next_multiple_of(ALIGNMENT).ok_or(Errno::ENOMEM)?;
        let writable = taken.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
        let mapped = NonZeroUsize::MIN.checked_add(writable + PAGE - 1).ok_or(Errno::ENOMEM)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let mapping = unsafe { mmap_anonymous(None, mapped, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE) }?;
        let request = Self { mapping, mapped, offset: writable - taken, length };
        // SAFETY: the range is the mapping without its last page, and no pointer into it exists yet.
        unsafe { mprotect(mapping, writable, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE) }?;
        Ok(request)
    }

    fn start(&self) -> NonNull<u8> {
        // SAFETY: the offset is within the mapping.
        unsafe { self.mapping.cast::<u8>().add(self.offset) }
    }
}

impl Deref for IoctlBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: from `start` there are at least `length` bytes of zeroed, writable memory that only this value owns.
        unsafe { slice::from_raw_parts(self.start().as_ptr(), self.length) }
    }
}

impl DerefMut for IoctlBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow of this value is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start().as_ptr(), self.length) }
    }
}

impl Drop for IoctlBuffer {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no borrow of it is left. munmap(2) cannot fail for a whole mapping.
        let _ = unsafe { munmap(self.mapping, self.mapped.get()) };
    }
}

/// Sends a request to a link's driver. The reply replaces the request.
///
/// # Errors
/// `EFAULT` if the reply is longer than the request.
pub(crate) fn ioctl(
    socket: BorrowedFd<'_>,
    ioctl: Ioctl,
    link: &LinkName,
    request: &mut IoctlBuffer,
) -> Result<(), Errno> {
    let mut name = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(link.as_str().bytes()) {
        *to = from.cast_signed() as libc::c_char;
    }
    let data = request.start().as_ptr().cast();
    let mut ifreq =
        libc::ifreq { ifr_name: name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: data } };
    // SAFETY: `ifreq` lives through the call; a link's name is shorter than IFNAMSIZ, so it ends with a zero. The
    // kernel reads and writes from `data` on, upwards, and stops with EFAULT at the inaccessible page behind the
    // request. All bytes before that page belong to the request, and any byte value is valid.
    let done = unsafe {
        match ioctl {
            Ioctl::Ethtool => siocethtool(socket.as_raw_fd(), &raw mut ifreq),
            Ioctl::GetTimestamps => siocghwtstamp(socket.as_raw_fd(), &raw mut ifreq),
            Ioctl::SetTimestamps => siocshwtstamp(socket.as_raw_fd(), &raw mut ifreq),
        }
    };
    done.map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    use testkit::{Observe, TestNode};

    use super::*;

    #[test]
    fn a_request_is_writable_to_its_last_byte() {
        for length in [1, 8, 12, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE + 44] {
            let mut request = IoctlBuffer::zeroed(length).unwrap();
            assert_eq!(request.len(), length);
            assert!(request.iter().all(|byte| *byte == 0));
            assert_eq!(request.as_ptr().addr() % ALIGNMENT, 0);
            request.fill(7);
            assert!(request.iter().all(|byte| *byte == 7));
        }
        assert_eq!(IoctlBuffer::zeroed(usize::MAX).unwrap_err(), Errno::ENOMEM);
        assert_eq!(IoctlBuffer::zeroed(usize::MAX - 2 * PAGE).unwrap_err(), Errno::ENOMEM);
    }

    #[test]
    fn memory_is_reused_for_a_request_that_fits_and_shows_no_former_byte() {
        let mut request = IoctlBuffer::zeroed(PAGE - 3).unwrap();
        for (length, fits) in [(44, true), (PAGE, true), (PAGE + 1, false), (1, true), (2 * PAGE, true)] {
            request.fill(7);
            let memory = request.mapping;
            request = request.resized(length).unwrap();
            assert_eq!(request.mapping == memory, fits, "{length}");
            assert!(request.len() == length && request.iter().all(|byte| *byte == 0), "{length}");
            let end = request.as_ptr().addr() + length.next_multiple_of(ALIGNMENT);
            let inaccessible = request.mapping.addr().get() + request.mapped.get() - PAGE;
            assert_eq!(end, inaccessible, "{length}");
        }
        assert_eq!(request.resized(usize::MAX).unwrap_err(), Errno::ENOMEM);
    }

    #[test]
    fn the_kernel_cannot_write_beyond_a_request() {
        const GSTRINGS: u32 = 0x1b;
        const STATISTICS: u32 = 1;
        let node = TestNode::new();
        node.run_ip("link add v0 type veth peer name v1");
        let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).unwrap();
        // Room for one name. With a count of zero in the request, every kernel writes all names.
        let mut request = IoctlBuffer::zeroed(12 + 32).unwrap();
        request[..4].copy_from_slice(&GSTRINGS.to_ne_bytes());
        request[4..8].copy_from_slice(&STATISTICS.to_ne_bytes());
        assert_eq!(
            ioctl(socket.as_fd(), Ioctl::Ethtool, &"v0".parse().unwrap(), &mut request),
            Err(Errno::EFAULT)
        );
        let count = u32::from_ne_bytes(request[8..12].try_into().unwrap());
        assert!(count > 1, "{count}: the kernel did not write more than one name");
    }
}
