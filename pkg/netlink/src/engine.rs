//! Request, answer, dump.

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

/// A netlink family: which protocol, and what its messages are.
pub trait NetlinkFamily {
    /// The protocol number, like `NETLINK_ROUTE`.
    const PROTOCOL: isize;
    /// The messages of this family.
    type RtnlMessage: NetlinkSerializable + NetlinkDeserializable + Debug;
    /// How many datagrams an answer may have. A kernel whose next object fits into no datagram may send empty
    /// ones for ever; a list of a million routes has 10,000.
    const MAX_DATAGRAMS: usize = 65_536;
}

/// A socket of one netlink family, in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Socket<F> {
    socket: netlink_sys::Socket,
    sequence: u32,
    patience: Duration,
    buffer: Vec<u8>,
    filters_lists: bool,
    family: PhantomData<F>,
}

/// How long is waited for an answer. The kernel does most of a change, and waits for RTNL, within the call that
/// sends the request: that time cannot be bounded from here.
const REPLY_TIMEOUT: Duration = Duration::from_secs(15);

/// An answer's datagram is at most this long, except for a PF with many VFs: see [`Socket::get`]. The kernel fills 32 KiB
/// with several objects of a list, but one object may need more: a link may have 64 KiB of altnames, and a pod may give
/// it those. A list cannot be asked for again with more room, for its rest is still on its way.
const BUFFER: usize = 96 * 1024;

/// How often a dump is started again at once when the kernel says that it changed meanwhile. Then whoever changes it is
/// given time to come to an end.
const DUMP_TRIES: u32 = 3;

/// The longest of the pauses between two readings.
const LONGEST_PAUSE: Duration = Duration::from_millis(256);

/// Why a receive call ended a request.
enum ReceiveEnd {
    NoAnswer(ReplyError),
    TooLong(usize),
    /// So often the list changed while it was read.
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
        // Kernels before 4.12 have neither; their refusals then simply carry no text.
        let _ = socket.set_cap_ack(true).and_then(|()| socket.set_ext_ack(true));
        let timeout = TimeVal::new(REPLY_TIMEOUT.as_secs().cast_signed(), 0);
        setsockopt(&socket, ReceiveTimeout, &timeout).map_err(|errno| failed(errno.into()))?;
        let buffer = Vec::with_capacity(BUFFER);
        Ok(Self {
            socket,
            sequence: 0,
            patience: REPLY_TIMEOUT,
            buffer,
            filters_lists: false,
            family: PhantomData,
        })
    }

    /// Has the kernel list only what a request asks for, such as the addresses of one link, and refuse what it does not know.
    /// Kernels before 4.20 go on listing everything: whoever asks looks at what he gets.
    pub fn filter_lists(&mut self) {
        if !self.filters_lists {
            let _ = self.socket.set_netlink_get_strict_chk(true);
            self.filters_lists = true;
        }
    }

    /// Makes room for an answer that is longer than usual. [`Socket::get`] would make it too, but only after
    /// it has asked once for nothing.
    pub fn expect_long_answer(&mut self, bytes: usize) {
        self.buffer.clear();
        self.buffer.reserve(bytes);
    }

    /// Sends a change and waits for the kernel's word that it is made.
    ///
    /// `flags` are added to `NLM_F_REQUEST | NLM_F_ACK`.
    ///
    /// # Errors
    /// Any variant of [`Error`], named after `operation` and `object`.
    pub fn execute(
        &mut self,
        operation: &'static str,
        object: &dyn fmt::Display,
        message: F::RtnlMessage,
        flags: u16,
    ) -> Result<(), Error> {
        self.exchange(message, NLM_F_ACK | flags, |_| {}).map_err(|stop| self.error(operation, object, stop))
    }

    /// Asks for one object.
    ///
    /// # Errors
    /// Any variant of [`Error`], named after `operation` and `object`; [`Error::NotFound`] also if the
    /// kernel's answer is empty.
    pub fn get(
        &mut self,
        operation: &'static str,
        object: &dyn fmt::Display,
        message: F::RtnlMessage,
    ) -> Result<F::RtnlMessage, Error>
    where
        F::RtnlMessage: Clone,
    {
        let mut answer = None;
        let mut result = self.exchange(message.clone(), NLM_F_ACK, |m| answer = Some(m));
        if let Err(ReceiveEnd::TooLong(needed)) = result {
            self.expect_long_answer(needed);
            result = self.exchange(message, NLM_F_ACK, |m| answer = Some(m));
        }
        result.map_err(|stop| self.error(operation, object, stop))?;
        answer.ok_or_else(|| Error::not_found(operation, object.to_string()))
    }

    /// Asks for one object of which the kernel tells in one message, or not at all. As [`Socket::get`], but without the
    /// acknowledgement after it: half the messages. They may also have a type of their
    /// own for the answer, which reads less of it.
    ///
    /// # Errors
    /// As of [`Socket::get`].
    pub fn get_at_once<M: NetlinkDeserializable>(
        &mut self,
        operation: &'static str,
        object: &dyn fmt::Display,
        message: F::RtnlMessage,
    ) -> Result<M, Error>
    where
        F::RtnlMessage: Clone,
    {
        let mut answer = self.one_answer(message.clone());
        if let Err(ReceiveEnd::TooLong(needed)) = answer {
            self.expect_long_answer(needed);
            answer = self.one_answer(message);
        }
        let answer = answer.map_err(|stop| self.error(operation, object, stop))?;
        answer.ok_or_else(|| Error::not_found(operation, object.to_string()))
    }

    fn one_answer<M: NetlinkDeserializable>(
        &mut self,
        message: F::RtnlMessage,
    ) -> Result<Option<M>, ReceiveEnd> {
        self.send(message, NLM_F_REQUEST).map_err(ReceiveEnd::Socket)?;
        let deadline = Instant::now() + self.patience;
        loop {
            let Some(answers) = self.receive::<M>(deadline)? else { continue };
            let (done, first) = (answers.done, answers.messages.into_iter().next());
            if done || first.is_some() {
                return Ok(first);
            }
        }
    }

    /// Asks for all objects of a kind; `visit` gathers each into the value that is returned.
    ///
    /// A dump that the kernel calls inconsistent is started again, with a new value, for as long as an answer may take.
    ///
    /// # Errors
    /// Any variant of [`Error`], named after `operation` and `object`.
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
        let found = retry_until_stable(self.patience, || read(self));
        found.map_err(|stop| self.error(operation, object, stop))
    }

    fn exchange(
        &mut self,
        message: F::RtnlMessage,
        flags: u16,
        mut visit: impl FnMut(F::RtnlMessage),
    ) -> Result<(), ReceiveEnd> {
        self.send(message, NLM_F_REQUEST | flags).map_err(ReceiveEnd::Socket)?;
        let deadline = Instant::now() + self.patience;
        receive_all(F::MAX_DATAGRAMS, || self.receive(deadline), &mut visit)
    }

    fn send(&mut self, message: F::RtnlMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send_to(&bytes, &SocketAddr::new(0, 0), 0).map(drop)
    }

    /// Receives one datagram; `None` if it is not the kernel's, or a signal came first.
    fn receive<M: NetlinkDeserializable>(
        &mut self,
        deadline: Instant,
    ) -> Result<Option<Replies<M>>, ReceiveEnd> {
        // The kernel works while it is sent to, and that time does not count. Only before waiting: an answer that is there
        // does.
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
        // Only the kernel's word counts, however long: another process may send to this socket's port.
        if sender.port_number() != 0 {
            return Ok(None);
        }
        if length > self.buffer.len() {
            return Err(ReceiveEnd::TooLong(length));
        }
        Replies::parse(&self.buffer, self.sequence).map(Some).map_err(ReceiveEnd::NoAnswer)
    }

    fn error(&self, operation: &'static str, object: &dyn fmt::Display, stop: ReceiveEnd) -> Error {
        let object = object.to_string();
        match stop {
            ReceiveEnd::NoAnswer(ReplyError::Refused(errno, extack)) => {
                Error::refused(operation, object, errno, extack)
            }
            ReceiveEnd::NoAnswer(ReplyError::Decode(source)) => Error::Decode { operation, object, source },
            ReceiveEnd::Endless(datagrams) => Error::Endless { operation, object, datagrams },
            ReceiveEnd::Late => Error::Deadline { operation, object, within: self.patience },
            ReceiveEnd::Socket(source) => Error::Socket { operation, object, source },
            ReceiveEnd::TooLong(length) => {
                let source =
                    DecodeError::from(format!("the answer has {length} bytes, too long for the buffer"));
                Error::Decode { operation, object, source }
            }
            ReceiveEnd::Interrupted(readings) => {
                let source =
                    DecodeError::from(format!("the list changed during each of {readings} readings"));
                Error::Decode { operation, object, source }
            }
        }
    }
}

/// Reads a list again until it does not change meanwhile.
fn retry_until_stable<T>(
    patience: Duration,
    mut read: impl FnMut() -> Result<T, ReceiveEnd>,
) -> Result<T, ReceiveEnd> {
    let deadline = Instant::now() + patience;
    let mut readings = 0;
    loop {
        match read() {
            Err(ReceiveEnd::Interrupted(_)) => readings += 1,
            result => return result,
        }
        if Instant::now() >= deadline {
            return Err(ReceiveEnd::Interrupted(readings));
        }
        thread::sleep(backoff(readings));
    }
}

/// How long is waited after so many readings.
fn backoff(readings: u32) -> Duration {
    let Some(pauses) = readings.checked_sub(DUMP_TRIES) else { return Duration::ZERO };
    Duration::from_millis(1).saturating_mul(2_u32.saturating_pow(pauses)).min(LONGEST_PAUSE)
}

/// Takes datagrams until the kernel says that these are all, but no more than `limit` of them.
fn receive_all<M>(
    limit: usize,
    mut receive: impl FnMut() -> Result<Option<Replies<M>>, ReceiveEnd>,
    mut visit: impl FnMut(M),
) -> Result<(), ReceiveEnd> {
    let mut interrupted = false;
    for _ in 0..limit {
        let Some(answers) = receive()? else { continue };
        answers.messages.into_iter().for_each(&mut visit);
        interrupted |= answers.interrupted;
        if answers.done {
            return if interrupted { Err(ReceiveEnd::Interrupted(1)) } else { Ok(()) };
        }
    }
    Err(ReceiveEnd::Endless(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(messages: &[u8], done: bool) -> Replies<u8> {
        Replies { messages: messages.to_vec(), done, interrupted: false }
    }

    #[test]
    fn a_list_that_never_ends_is_given_up() {
        for datagram in [&[][..], &[1]] {
            let (mut received, mut seen) = (0, 0);
            let endless = || {
                received += 1;
                Ok(Some(answers(datagram, false)))
            };
            let stop = receive_all(100, endless, |_| seen += 1);
            assert!(matches!(stop, Err(ReceiveEnd::Endless(100))));
            assert_eq!((received, seen), (100, 100 * datagram.len()));
        }
    }

    #[test]
    fn a_list_that_ends_with_the_last_datagram_allowed_is_whole() {
        let mut left = 3;
        let list = || {
            left -= 1;
            Ok(Some(answers(&[left], left == 0)))
        };
        let mut seen = Vec::new();
        assert!(receive_all(3, list, |message| seen.push(message)).is_ok());
        assert_eq!(seen, [2, 1, 0]);
    }

    #[test]
    fn what_others_send_does_not_keep_a_request_alive() {
        assert!(matches!(receive_all::<u8>(9, || Ok(None), |_| {}), Err(ReceiveEnd::Endless(9))));
    }
    /// Reads a list that changes while it is read the first so many times, and counts the readings.
    fn readings(changes: u32, patience: Duration) -> (u32, Result<(), ReceiveEnd>) {
        let mut readings = 0;
        let read = retry_until_stable(patience, || {
            readings += 1;
            if readings <= changes { Err(ReceiveEnd::Interrupted(1)) } else { Ok(()) }
        });
        (readings, read)
    }

    #[test]
    fn a_list_that_changes_all_the_time_is_given_time() {
        let began = Instant::now();
        assert!(matches!(readings(12, REPLY_TIMEOUT), (13, Ok(()))));
        assert!(began.elapsed() > Duration::from_millis(500), "it was not waited: {:?}", began.elapsed());
        let short = Duration::from_millis(30);
        assert!(matches!(readings(u32::MAX, short), (1..20, Err(ReceiveEnd::Interrupted(1..20)))));
        assert_eq!(backoff(DUMP_TRIES - 1), Duration::ZERO);
        assert_eq!(backoff(u32::MAX), LONGEST_PAUSE);
    }
}
