//! JSON over a TCP connection, limited in length and time: lines during the handshake, then messages.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    channel::{self, SecureChannel},
    message_buffer::{MAX_LINE_BYTES, MessageBuffer},
};
use crate::{Error, Interrupt, error::io as failed, sanitized_text::plain};

/// Maximum length of a message, in bytes, before sealing.
const MAX_MESSAGE_BYTES: usize = channel::MAX_NOISE_MESSAGE - channel::TAG;

/// Interval at which a wait checks for an interrupt.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Timeout of a write to the socket (`SO_SNDTIMEO`).
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the other end.
#[derive(Debug)]
pub struct MessageStream {
    stream: Arc<TcpStream>,
    peer: SocketAddr,
    buffer: MessageBuffer,
    channel: Option<SecureChannel>,
    /// The end of every wait, besides its own timeout.
    deadline: Option<Instant>,
}

impl MessageStream {
    /// Prepares a connection: TCP_NODELAY, a send timeout and keep-alive.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(stream: impl Into<Arc<TcpStream>>) -> Result<Self, Error> {
        let stream = stream.into();
        let prepared = stream.peer_addr().and_then(|peer| {
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(SEND_TIMEOUT))?;
            detect_close(&stream)?;
            Ok(peer)
        });
        let peer = prepared.map_err(failed("prepare a connection"))?;
        Ok(Self { stream, peer, buffer: MessageBuffer::default(), channel: None, deadline: None })
    }

    /// Limits all waits for messages, whatever their own timeouts.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Returns the IP address of the other end; an IPv4-mapped one as IPv4.
    pub fn peer(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Returns the local IP address of the connection.
    pub(crate) fn local(&self) -> Option<IpAddr> {
        Some(self.stream.local_addr().ok()?.ip().to_canonical())
    }

    /// Sends a value as one line of JSON, before the channel is established.
    pub(super) fn send_line(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let mut line = self.text(value, MAX_LINE_BYTES - 1)?;
        line.push(b'\n');
        self.write(&line)
    }

    /// Receives the next line as a value.
    pub(super) fn receive_line<T: DeserializeOwned>(
        &mut self,
        within: Duration,
        interrupt: &Interrupt,
    ) -> Result<T, Error> {
        let line = self.wait(within, interrupt, Self::line)?;
        self.value(&line)
    }

    /// Seals and opens all further messages with this channel.
    pub(super) fn seal_with(&mut self, channel: SecureChannel) {
        self.channel = Some(channel);
    }

    /// Sends a value as one message.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Protocol`] if it is too long.
    pub fn send(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let text = self.text(value, MAX_MESSAGE_BYTES)?;
        let sealed = match &mut self.channel {
            Some(channel) => channel.seal(&text).map_err(|error| self.protocol(&error.to_string()))?,
            None => text,
        };
        let length = u16::try_from(sealed.len()).map_err(|error| self.protocol(&error.to_string()))?;
        self.write(&[&length.to_be_bytes()[..], &sealed].concat())
    }

    /// Receives the next message as a value.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Interrupted`], [`Error::Closed`], [`Error::Altered`], [`Error::Protocol`],
    /// [`Error::Io`].
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        within: Duration,
        interrupt: &Interrupt,
    ) -> Result<T, Error> {
        let message = self.wait(within, interrupt, Self::message)?;
        self.value(&message)
    }

    /// Receives the next message as a value; `None` if it is not complete within `wait`.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Altered`], [`Error::Protocol`], [`Error::Io`].
    pub fn poll<T: DeserializeOwned>(&mut self, wait: Duration) -> Result<Option<T>, Error> {
        let message = self.poll_for(wait, Self::message)?;
        message.map(|message| self.value(&message)).transpose()
    }

    /// Waits for data from the other end without receiving it. Returns whether there is any within `wait`.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Io`].
    pub(crate) fn wait_for_data(&self, wait: Duration) -> Result<bool, Error> {
        if !self.buffer.is_empty() {
            return Ok(true);
        }
        self.stream.set_read_timeout(Some(wait)).map_err(failed("set the receive timeout"))?;
        match self.stream.peek(&mut [0]) {
            Ok(0) => Err(self.closed()),
            Ok(_) => Ok(true),
            Err(error) => self.read_error(error).map(|()| false),
        }
    }

    /// Shuts down the sending direction, so that data already sent can arrive.
    pub fn close(self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Pretends to be connected to another address.
    #[cfg(test)]
    pub(super) fn fake_peer(&mut self, peer: SocketAddr) {
        self.peer = peer;
    }

    fn wait(
        &mut self,
        within: Duration,
        interrupt: &Interrupt,
        next: fn(&mut Self) -> Result<Option<Vec<u8>>, Error>,
    ) -> Result<Vec<u8>, Error> {
        let began = Instant::now();
        let deadline = self.deadline.unwrap_or(began + within).min(began + within);
        loop {
            interrupt.check()?;
            if let Some(next) = self.poll_for(INTERRUPT_POLL_INTERVAL, next)? {
                return Ok(next);
            }
            if Instant::now() >= deadline {
                let what = format!("receive from {}", self.peer);
                return Err(Error::TimedOut { what, seconds: began.elapsed().as_secs() });
            }
        }
    }

    /// Returns what `next` finds in the buffer, if necessary after one read from the socket.
    fn poll_for(
        &mut self,
        wait: Duration,
        next: fn(&mut Self) -> Result<Option<Vec<u8>>, Error>,
    ) -> Result<Option<Vec<u8>>, Error> {
        if let Some(next) = next(self)? {
            return Ok(Some(next));
        }
        self.stream.set_read_timeout(Some(wait)).map_err(failed("set the receive timeout"))?;
        let mut piece = [0; 4096];
        match (&*self.stream).read(&mut piece) {
            Ok(0) if !self.buffer.is_empty() => Err(self.protocol("the connection ended within a message")),
            Ok(0) => Err(self.closed()),
            Ok(read) => {
                self.buffer.push(&piece[..read]);
                next(self)
            }
            Err(error) => self.read_error(error).map(|()| None),
        }
    }

    /// Returns an error of a read as one of this stream; none if only the wait has ended.
    fn read_error(&self, error: io::Error) -> Result<(), Error> {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Err(self.closed()),
            _ => Err(failed(format!("receive from {}", self.peer))(error)),
        }
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.buffer.line().map_err(|_| self.protocol("a line is longer than 4 KiB"))
    }

    fn message(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match (self.buffer.message(), &mut self.channel) {
            (Some(sealed), Some(channel)) => {
                let opened = channel.open(&sealed);
                opened.map(Some).map_err(|_| Error::Altered { peer: self.peer.to_string() })
            }
            (message, _) => Ok(message),
        }
    }

    fn text(&self, value: &impl Serialize, longest: usize) -> Result<Vec<u8>, Error> {
        let text = serde_json::to_vec(value).map_err(|error| self.protocol(&error.to_string()))?;
        if text.len() > longest { Err(self.protocol("the message to send is too long")) } else { Ok(text) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        (&*self.stream).write_all(bytes).map_err(failed(format!("send to {}", self.peer)))
    }

    fn value<T: DeserializeOwned>(&self, line: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(line).map_err(|error| self.protocol(&error.to_string()))
    }

    fn closed(&self) -> Error {
        Error::Closed { peer: self.peer.to_string() }
    }

    pub(crate) fn protocol(&self, why: &str) -> Error {
        Error::Protocol { peer: self.peer.to_string(), why: plain(why, 200) }
    }
}

/// Enables TCP keep-alive. A peer that loses power sends nothing, and its test would block other tests for up to an hour.
/// Probes start after 10 s of silence; the connection is closed if the peer does not respond to them for 15 s.
fn detect_close(stream: &TcpStream) -> io::Result<()> {
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &10)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &5)?;
    Ok(setsockopt(stream, sockopt::TcpKeepCount, &3)?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use nix::sys::socket::getsockopt;

    use super::*;

    fn pair() -> (MessageStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (MessageStream::new(listener.accept().unwrap().0).unwrap(), other)
    }

    fn line(wire: &mut MessageStream) -> Result<u32, Error> {
        wire.receive_line(Duration::from_secs(10), &Interrupt::never())
    }

    fn receive(wire: &mut MessageStream) -> Result<u32, Error> {
        wire.receive(Duration::from_secs(10), &Interrupt::never())
    }

    #[test]
    fn lines_and_messages_are_received_one_by_one_regardless_of_segmentation() {
        let (mut wire, mut other) = pair();
        other.write_all(b"1\n22\n3").unwrap();
        assert_eq!(line(&mut wire).unwrap(), 1);
        assert_eq!(line(&mut wire).unwrap(), 22);
        other.write_all(b"3\n\0\x025").unwrap();
        assert_eq!(line(&mut wire).unwrap(), 33);
        other.write_all(b"5\0\x016\0").unwrap();
        assert_eq!(receive(&mut wire).unwrap(), 55);
        assert_eq!(receive(&mut wire).unwrap(), 6);
        other.write_all(b"\x017").unwrap();
        assert_eq!(receive(&mut wire).unwrap(), 7);
        drop(other);
        assert!(matches!(receive(&mut wire), Err(Error::Closed { .. })));
    }

    #[test]
    fn data_is_waited_for_without_receiving_it() {
        let (mut wire, mut other) = pair();
        let brief = Duration::from_millis(1);
        assert!(!wire.wait_for_data(brief).unwrap());
        other.write_all(b"\0\x015\0\x016").unwrap();
        assert!(wire.wait_for_data(Duration::from_secs(10)).unwrap());
        assert_eq!(receive(&mut wire).unwrap(), 5);
        drop(other);
        assert!(wire.wait_for_data(brief).unwrap(), "6 has been read from the socket");
        assert_eq!(receive(&mut wire).unwrap(), 6);
        assert!(matches!(wire.wait_for_data(brief), Err(Error::Closed { .. })));
    }

    #[test]
    fn a_line_without_a_newline_is_refused() {
        let (mut wire, mut other) = pair();
        let writer = std::thread::spawn(move || other.write_all(&[b'1'; 2 * MAX_MESSAGE_BYTES]));
        assert!(matches!(line(&mut wire), Err(Error::Protocol { .. })));
        assert!(wire.buffer.len() <= 2 * MAX_LINE_BYTES);
        drop(wire);
        let _ = writer.join();
    }

    #[test]
    fn a_message_that_is_cut_off_by_the_end_of_the_connection_is_refused() {
        let (mut wire, mut other) = pair();
        other.write_all(b"\0\x0212\0\x023").unwrap();
        drop(other);
        assert_eq!(receive(&mut wire).unwrap(), 12);
        let error = receive(&mut wire).unwrap_err().to_string();
        assert!(error.contains("ended within a message"), "{error}");
    }

    #[test]
    fn invalid_json_is_refused_and_silence_times_out() {
        let (mut wire, mut other) = pair();
        other.write_all(b"GET / HTTP/1.1\r\n\0\x03GET").unwrap();
        assert!(matches!(line(&mut wire), Err(Error::Protocol { .. })));
        assert!(matches!(receive(&mut wire), Err(Error::Protocol { .. })));
        let silent = wire.receive::<u32>(Duration::ZERO, &Interrupt::never());
        assert!(matches!(silent, Err(Error::TimedOut { .. })));
        let ending = Interrupt::never();
        ending.request();
        assert!(matches!(wire.receive::<u32>(Duration::from_secs(10), &ending), Err(Error::Interrupted)));
    }

    #[test]
    fn a_peer_that_disappears_silently_is_detected() {
        let (wire, _other) = pair();
        assert!(getsockopt(&wire.stream, sockopt::KeepAlive).unwrap());
        let times = [
            getsockopt(&wire.stream, sockopt::TcpKeepIdle).unwrap(),
            getsockopt(&wire.stream, sockopt::TcpKeepInterval).unwrap(),
            getsockopt(&wire.stream, sockopt::TcpKeepCount).unwrap(),
        ];
        assert_eq!(times, [10, 5, 3]);
    }

    #[test]
    fn a_message_that_is_too_long_is_not_sent() {
        let (mut wire, _other) = pair();
        assert!(matches!(wire.send(&"x".repeat(MAX_MESSAGE_BYTES)), Err(Error::Protocol { .. })));
        assert!(matches!(wire.send_line(&"x".repeat(MAX_LINE_BYTES)), Err(Error::Protocol { .. })));
    }
}
