//! Lines of JSON over a connection: bounded in length and in time.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, Interrupt, error::io as failed, label::plain};

/// The longest line.
const LONGEST: usize = 64 << 10;

/// How often a wait looks whether the process is to end.
const TICK: Duration = Duration::from_millis(50);

/// How long the kernel may take to accept a line for sending.
const SENDING: Duration = Duration::from_secs(5);

/// A connection to another end.
#[derive(Debug)]
pub struct Wire {
    stream: Arc<TcpStream>,
    peer: SocketAddr,
    unread: Vec<u8>,
}

impl Wire {
    /// Over a connection.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(stream: impl Into<Arc<TcpStream>>) -> Result<Self, Error> {
        let stream = stream.into();
        let prepared = stream.peer_addr().and_then(|peer| {
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(SENDING))?;
            notice_absence(&stream)?;
            Ok(peer)
        });
        Ok(Self { peer: prepared.map_err(failed("prepare a connection"))?, stream, unread: Vec::new() })
    }

    /// Who is at the other end.
    pub fn peer(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Our address of the connection.
    pub(crate) fn local(&self) -> Option<IpAddr> {
        Some(self.stream.local_addr().ok()?.ip().to_canonical())
    }

    /// Sends a value as one line.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Protocol`] if it is too long.
    pub fn send(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let mut line = serde_json::to_vec(value).map_err(|error| self.protocol(&error.to_string()))?;
        line.push(b'\n');
        if line.len() > LONGEST {
            return Err(self.protocol("what is to be sent is too long"));
        }
        (&*self.stream).write_all(&line).map_err(failed(format!("send to {}", self.peer)))
    }

    /// The next line, as a value.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Interrupted`], [`Error::Closed`], [`Error::Protocol`], [`Error::Io`].
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        within: Duration,
        interrupt: &Interrupt,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + within;
        loop {
            interrupt.check()?;
            if let Some(value) = self.poll(TICK)? {
                return Ok(value);
            }
            if Instant::now() >= deadline {
                let what = format!("the answer of {}", self.peer);
                return Err(Error::TimedOut { what, seconds: within.as_secs() });
            }
        }
    }

    /// The next line, as a value, if one comes soon.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Protocol`], [`Error::Io`].
    pub fn poll<T: DeserializeOwned>(&mut self, wait: Duration) -> Result<Option<T>, Error> {
        if let Some(line) = self.line() {
            return self.value(&line).map(Some);
        }
        self.stream.set_read_timeout(Some(wait)).map_err(failed("wait for an answer"))?;
        let mut piece = [0; 4096];
        match (&*self.stream).read(&mut piece) {
            Ok(0) => return Err(self.closed()),
            Ok(read) => self.unread.extend_from_slice(&piece[..read]),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                return Ok(None);
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                return Err(self.closed());
            }
            Err(source) => return Err(failed(format!("receive from {}", self.peer))(source)),
        }
        match self.line() {
            Some(line) => self.value(&line).map(Some),
            None if self.unread.len() > LONGEST => Err(self.protocol("a line is longer than 64 KiB")),
            None => Ok(None),
        }
    }

    /// Says that nothing more will come, and gives what was sent a chance to arrive.
    pub fn close(self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        Some(self.unread.drain(..=end).collect())
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

/// A peer that lost its power says nothing: without this its test would keep others out for up to an hour. It is asked
/// for after 10 s of silence, and is gone if it does not answer for 15 s.
fn notice_absence(stream: &TcpStream) -> io::Result<()> {
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

    fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Wire::new(listener.accept().unwrap().0).unwrap(), other)
    }

    fn receive(wire: &mut Wire) -> Result<u32, Error> {
        wire.receive(Duration::from_secs(10), &Interrupt::never())
    }

    #[test]
    fn lines_come_one_by_one_however_they_are_cut() {
        let (mut wire, mut other) = pair();
        other.write_all(b"1\n22\n3").unwrap();
        assert_eq!(receive(&mut wire).unwrap(), 1);
        assert_eq!(receive(&mut wire).unwrap(), 22);
        other.write_all(b"3\n").unwrap();
        assert_eq!(receive(&mut wire).unwrap(), 33);
        drop(other);
        assert!(matches!(receive(&mut wire), Err(Error::Closed { .. })));
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let (mut wire, mut other) = pair();
        let writer = std::thread::spawn(move || other.write_all(&[b'1'; 2 * LONGEST]));
        assert!(matches!(receive(&mut wire), Err(Error::Protocol { .. })));
        drop(wire);
        let _ = writer.join();
    }

    #[test]
    fn what_is_no_json_is_refused_and_silence_has_its_time() {
        let (mut wire, mut other) = pair();
        other.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert!(matches!(receive(&mut wire), Err(Error::Protocol { .. })));
        let silent = wire.receive::<u32>(Duration::ZERO, &Interrupt::never());
        assert!(matches!(silent, Err(Error::TimedOut { .. })));
        let ending = Interrupt::never();
        ending.request();
        assert!(matches!(wire.receive::<u32>(Duration::from_secs(10), &ending), Err(Error::Interrupted)));
    }

    #[test]
    fn a_peer_that_is_gone_without_a_word_is_noticed() {
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
    fn nothing_too_long_is_sent() {
        let (mut wire, _other) = pair();
        assert!(matches!(wire.send(&"x".repeat(LONGEST)), Err(Error::Protocol { .. })));
    }
}
