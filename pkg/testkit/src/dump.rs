//! Lists of the kernel's objects in the calling thread's network namespace.

use std::io;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// The length of a message's header.
const HEADER: usize = 16;
/// The kernel's messages are not longer.
const BUFFER: usize = 1 << 16;

/// Requests a list, and returns the messages without their headers. `request` follows the header.
///
/// # Panics
/// If the kernel refuses the request.
pub(crate) fn dump(protocol: SockProtocol, kind: u16, request: &[u8]) -> Vec<Vec<u8>> {
    // A list that changed while it was read is not consistent.
    (0..100).find_map(|_| list(protocol, kind, request).unwrap()).expect("the list changes all the time")
}

fn list(protocol: SockProtocol, kind: u16, request: &[u8]) -> io::Result<Option<Vec<Vec<u8>>>> {
    use std::os::fd::AsRawFd;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    let length = u32::try_from(HEADER + request.len()).unwrap();
    let flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message =
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8]].concat();
    message.extend_from_slice(request);
    sendto(socket.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let (mut messages, mut consistent, mut buffer) = (Vec::new(), true, vec![0; BUFFER]);
    loop {
        let received = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC)?;
        assert!(received <= BUFFER, "a message of {received} bytes");
        let mut rest = &buffer[..received];
        while rest.len() >= HEADER {
            let number = |at: usize| u16::from_ne_bytes([rest[at], rest[at + 1]]);
            let length = usize::from(number(0)) | usize::from(number(2)) << 16;
            consistent &= number(6) & NLM_F_DUMP_INTR == 0;
            let content = &rest[HEADER..length];
            match number(4) {
                NLMSG_DONE | NLMSG_ERROR => {
                    let error = i32::from_ne_bytes(content[..4].try_into().unwrap());
                    return match error {
                        0 => Ok(consistent.then_some(messages)),
                        error => Err(io::Error::from_raw_os_error(-error)),
                    };
                }
                _ => messages.push(content.to_vec()),
            }
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
    }
}
