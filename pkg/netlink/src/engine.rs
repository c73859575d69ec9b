//! The netlink socket: requests, replies and dumps.

use std::{
    fmt,
    fmt::Debug,
    io,
    marker::PhantomData,
    thread,
    time::{Duration, Instant},
};

use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::SocketAddr;
use nix::{
    libc,
    sys::{
        socket::{setsockopt, sockopt::ReceiveTimeout},
        time::TimeVal,
    },
};

use crate::{Error, Replies, ReplyError};

/// A netlink family: its protocol and its messages.
pub trait NetlinkFamily {
    /// The protocol number, such as `NETLINK_ROUTE`.
    const PROTOCOL: isize;
    /// The type of this family's messages.
    type RtnlMessage: NetlinkSerializable + NetlinkDeserializable + Debug;
    /// The limit of datagrams in one reply. If an object does not fit into a datagram, some kernels send empty ones for
    /// ever; a list of a million routes has 10,000.
    const MAX_DATAGRAMS: usize = 65_536;
}

/// A socket of one netlink family, in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Socket<F> {
    socket: netlink_sys::Socket,
    sequence: u32,
    timeout: Duration,
    /// The current request.
    request: Vec<u8>,
    buffer: Vec<u8>,
    filters_lists: bool,
    family: PhantomData<F>,
}

/// How long to wait for a reply. The kernel makes most changes, and waits for RTNL, within the system call that sends the
/// request; that time cannot be limited.
const REPLY_TIMEOUT: Duration = Duration::from_secs(15);

/// The size of the receive buffer. Only the reply for a PF with many VFs is longer: see [`Socket::get`]. In a dump the kernel
/// fills up to 32 KiB with several objects, but one object may need more: a pod may add 64 KiB of altnames to a link. A dump
/// cannot be repeated with a larger buffer, because the rest of it is still to be received.
const BUFFER: usize = 96 * 1024;

/// How often an interrupted dump is repeated without a delay.
const DUMP_TRIES: u32 = 3;

/// The longest delay between two tries of a dump.
const MAX_BACKOFF: Duration = Duration::from_millis(256);

/// Why receiving a reply ended without success.
enum ReceiveEnd {
    NoReply(ReplyError),
    TooLong(usize),
    /// The number of tries in which the list changed during the dump.
    Interrupted(u32),
    Endless(usize),
    Late,
    Socket(io::Error),
}

impl<F: NetlinkFamily> Socket<F> {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn open() -> Result<Self, Error> {
        let failed = |source: io::Error| Error::Socket { operation: "open", object: "socket".into(), source };
        let socket = netlink_sys::Socket::new(F::PROTOCOL).map_err(failed)?;
        // Kernels before 4.12 support neither; their errors have no extended message.
        let _ = socket.set_cap_ack(true).and_then(|()| socket.set_ext_ack(true));
        let timeout = TimeVal::new(REPLY_TIMEOUT.as_secs().cast_signed(), 0);
        setsockopt(&socket, ReceiveTimeout, &timeout).map_err(|errno| failed(errno.into()))?;
        let buffer = Vec::with_capacity(BUFFER);
        Ok(Self {
            socket,
            sequence: 0,
            timeout: REPLY_TIMEOUT,
            request: Vec::new(),
            buffer,
            filters_lists: false,
            family: PhantomData,
        })
    }

    /// Enables `NETLINK_GET_STRICT_CHK`: the kernel applies the filters of a dump request, such as the index of one link, and
    /// refuses unknown ones. Kernels before 4.20 list everything, so the caller must filter the replies as well.
    pub fn filter_lists(&mut self) {
        if !self.filters_lists {
            let _ = self.socket.set_netlink_get_strict_chk(true);
            self.filters_lists = true;
        }
    }

    /// Reserves a buffer for a long reply. [`Socket::get`] does so as well, but only after a first request whose reply did
    /// not fit.
    pub fn expect_long_answer(&mut self, bytes: usize) {
        self.buffer.clear();
        self.buffer.reserve(bytes);
    }

    /// Sends a change and waits for the kernel's acknowledgement.
    ///
    /// `flags` are added to `NLM_F_REQUEST | NLM_F_ACK`.
    ///
    /// # Errors
    /// Any variant of [`Error`], with `operation` and `object`.
    pub fn execute(
        &mut self,
        operation: &'static str,
        object: &dyn fmt::Display,
        message: F::RtnlMessage,
        flags: u16,
    ) -> Result<(), Error> {
        self.exchange(message, NLM_F_ACK | flags, |_| {}).map_err(|stop| self.error(operation, object, stop))
    }

    /// Requests one object.
    ///
    /// # Errors
    /// Any variant of [`Error`], with `operation` and `object`; [`Error::NotFound`] also if the
    /// kernel's reply is empty.
    pub fn get(
        &mut self,
        operation: &'static str,
        object: &dyn fmt::Display,
        message: F::RtnlMessage,
    ) -> Result<F::RtnlMessage, Error>
    where
        F::RtnlMessage: Clone,
    {
        let mut reply = None;
        let mut result = self.exchange(message.clone(), NLM_F_ACK, |m| reply = Some(m));
        if let Err(ReceiveEnd::TooLong(needed)) = result {
            self.expect_long_answer(needed);
            result = self.exchange(message, NLM_F_ACK, |m| reply = Some(m));
        }
        result.map_err(|stop| self.error(operation, object, stop))?;
        reply.ok_or_else(|| Error::not_found(operation, object.to_string()))
    }

    /// Requests one object whose reply is exactly one message or an error. As [`Socket::get`], but without the
    /// acknowledgement: half the messages. The reply may have a type of its own, which decodes less of it.
    ///
    /// # Errors
    /// As of [`Socket::get`].
    pub fn get_at_once<M: NetlinkDeserializable>(
        &mut self,
        operation: &'static str,
        object: &dyn fmt::Display,
        message: F::RtnlMessage,
    ) -> Result<M, Error> {
        self.encode(message, NLM_F_REQUEST);
        let mut reply = self.one_reply();
        if let Err(ReceiveEnd::TooLong(needed)) = reply {
            self.expect_long_answer(needed);
            reply = self.one_reply();
        }
        let reply = reply.map_err(|stop| self.error(operation, object, stop))?;
        reply.ok_or_else(|| Error::not_found(operation, object.to_string()))
    }

    fn one_reply<M: NetlinkDeserializable>(&mut self) -> Result<Option<M>, ReceiveEnd> {
        self.send().map_err(ReceiveEnd::Socket)?;
        let deadline = Instant::now() + self.timeout;
        loop {
            let Some(replies) = self.receive::<M>(deadline)? else { continue };
            let (done, first) = (replies.done, replies.messages.into_iter().next());
            if done || first.is_some() {
                return Ok(first);
            }
        }
    }

    /// Requests all objects of a kind; `visit` adds each to the value that is returned.
    ///
    /// A dump that the kernel reports as interrupted is repeated, with a new value, until the timeout of a reply expires.
    ///
    /// # Errors
    /// Any variant of [`Error`], with `operation` and `object`.
    pub fn dump<T: Default>(
        &mut self,
        operation: &'static str,
        object: &dyn fmt::Display,
        message: F::RtnlMessage,
        mut visit: impl FnMut(&mut T, F::RtnlMessage),
    ) -> Result<T, Error>
    where
        F::RtnlMessage: Clone,
    {
        let mut read = |socket: &mut Self| {
            let mut found = T::default();
            socket.exchange(message.clone(), NLM_F_DUMP, |m| visit(&mut found, m)).map(|()| found)
        };
        let found = retry_until_stable(self.timeout, || read(self));
        found.map_err(|stop| self.error(operation, object, stop))
    }

    fn exchange(
        &mut self,
        message: F::RtnlMessage,
        flags: u16,
        mut visit: impl FnMut(F::RtnlMessage),
    ) -> Result<(), ReceiveEnd> {
        self.encode(message, NLM_F_REQUEST | flags);
        self.send().map_err(ReceiveEnd::Socket)?;
        let deadline = Instant::now() + self.timeout;
        receive_all(F::MAX_DATAGRAMS, || self.receive(deadline), &mut visit)
    }

    /// Encodes the request that [`Self::send`] sends.
    fn encode(&mut self, message: F::RtnlMessage, flags: u16) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        packet.finalize();
        self.request.clear();
        self.request.resize(packet.header.length as usize, 0);
        packet.serialize(&mut self.request);
    }

    fn send(&self) -> io::Result<()> {
        self.socket.send_to(&self.request, &SocketAddr::new(0, 0), 0).map(drop)
    }

    /// Receives one datagram; `None` if it is not from the kernel, or the call was interrupted by a signal.
    fn receive<M: NetlinkDeserializable>(
        &mut self,
        deadline: Instant,
    ) -> Result<Option<Replies<M>>, ReceiveEnd> {
        // The deadline begins after the request was sent, in which the kernel does its work. It is only checked before the
        // wait, so that a reply that has arrived counts.
        if Instant::now() > deadline {
            return Err(ReceiveEnd::Late);
        }
        self.buffer.clear();
        let (length, sender) = match self.socket.recv_from(&mut self.buffer, libc::MSG_TRUNC) {
            Ok(received) => received,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(ReceiveEnd::Late),
            Err(e) => return Err(ReceiveEnd::Socket(e)),
        };
        // Datagrams of other processes, which may send to this socket's port, are ignored regardless of their length.
        if sender.port_number() != 0 {
            return Ok(None);
        }
        if length > self.buffer.len() {
            return Err(ReceiveEnd::TooLong(length));
        }
        Replies::parse(&self.buffer, self.sequence).map(Some).map_err(ReceiveEnd::NoReply)
    }

    fn error(&self, operation: &'static str, object: &dyn fmt::Display, stop: ReceiveEnd) -> Error {
        let object = object.to_string();
        match stop {
            ReceiveEnd::NoReply(ReplyError::Refused(errno, extack)) => {
                Error::refused(operation, object, errno, extack)
            }
            ReceiveEnd::NoReply(ReplyError::Decode(source)) => Error::Decode { operation, object, source },
            ReceiveEnd::Endless(datagrams) => Error::Endless { operation, object, datagrams },
            ReceiveEnd::Late => Error::Deadline { operation, object, within: self.timeout },
            ReceiveEnd::Socket(source) => Error::Socket { operation, object, source },
            ReceiveEnd::TooLong(length) => {
                let source =
                    DecodeError::from(format!("the reply has {length} bytes, too long for the buffer"));
                Error::Decode { operation, object, source }
            }
            ReceiveEnd::Interrupted(tries) => {
                let source = DecodeError::from(format!("the list changed during each of {tries} tries"));
                Error::Decode { operation, object, source }
            }
        }
    }
}

/// Repeats a dump until the list does not change during it.
fn retry_until_stable<T>(
    timeout: Duration,
    mut read: impl FnMut() -> Result<T, ReceiveEnd>,
) -> Result<T, ReceiveEnd> {
    let deadline = Instant::now() + timeout;
    let mut tries = 0;
    loop {
        match read() {
            Err(ReceiveEnd::Interrupted(_)) => tries += 1,
            result => return result,
        }
        if Instant::now() >= deadline {
            return Err(ReceiveEnd::Interrupted(tries));
        }
        thread::sleep(backoff(tries));
    }
}

/// Returns the delay after a number of tries.
fn backoff(tries: u32) -> Duration {
    let Some(delays) = tries.checked_sub(DUMP_TRIES) else { return Duration::ZERO };
    Duration::from_millis(1).saturating_mul(2_u32.saturating_pow(delays)).min(MAX_BACKOFF)
}

/// Receives datagrams until the end of the reply, but no more than `limit` of them.
fn receive_all<M>(
    limit: usize,
    mut receive: impl FnMut() -> Result<Option<Replies<M>>, ReceiveEnd>,
    mut visit: impl FnMut(M),
) -> Result<(), ReceiveEnd> {
    let mut interrupted = false;
    for _ in 0..limit {
        let Some(replies) = receive()? else { continue };
        replies.messages.into_iter().for_each(&mut visit);
        interrupted |= replies.interrupted;
        if replies.done {
            return if interrupted { Err(ReceiveEnd::Interrupted(1)) } else { Ok(()) };
        }
    }
    Err(ReceiveEnd::Endless(limit))
}

#[cfg(test)]
mod tests;
