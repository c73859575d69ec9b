//! The end that waits for tests: one at a time.
//!
//! Whoever connects has a thread of its own: first a stranger, with a few seconds to shake hands, then a client. How many
//! there may be of either, and of one source, is in `admission.rs`.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{Backlog, listen, setsockopt, sockopt},
};

use crate::{
    Error, PortSelector,
    error::io as failed,
    governor::Governors,
    protocol::{AgentRefusal, CheckToken, MessageStream, RefusalReason, handshake},
    session::LocalContext,
};

mod admission;
mod log;
mod service;

use admission::{ConnectionLimiter, ConnectionSlot};
use log::ConnectionLog;
use service::busy;

/// How often a test's connection and process are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How an agent behaves.
#[derive(Debug)]
pub struct AgentOptions {
    /// What clients have to have.
    pub token: Option<CheckToken>,
    /// Addresses that clients have connected to when they reach this agent, beside its own.
    pub known_as: Vec<IpAddr>,
    /// What is used where a client asks for nothing else.
    pub wanted: PortSelector,
    /// The first TCP port that is tried for perftest.
    pub first_port: u16,
    /// The governors to set during tests.
    pub governors: Option<Governors>,
}

/// An agent that listens.
#[derive(Debug)]
pub struct Agent<'a> {
    listener: TcpListener,
    settings: AgentOptions,
    node: &'a LocalContext,
    busy: Mutex<()>,
    admission: ConnectionLimiter,
}

impl<'a> Agent<'a> {
    /// Listens.
    ///
    /// # Errors
    /// [`Error::Open`] if others than this node could start tests without a token; [`Error::Io`].
    pub fn listen(
        address: SocketAddr,
        settings: AgentOptions,
        node: &'a LocalContext,
    ) -> Result<Self, Error> {
        if settings.token.is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(Error::Open { address: address.to_string() });
        }
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            // std's queue has 128 places. Who connects quickly would fill it, and others would be kept waiting.
            listen(&listener, Backlog::MAXCONN)?;
            Ok(listener)
        });
        let listener = listener.map_err(failed(format!("listen on {address}")))?;
        Ok(Self { listener, settings, node, busy: Mutex::new(()), admission: ConnectionLimiter::default() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(failed("ask for the address listened on"))
    }

    /// Serves until the process is to end. `write` is told of each test, in one line, and of what went wrong, in so many
    /// lines that they can be read.
    ///
    /// # Errors
    /// [`Error::Io`] if the socket fails.
    pub fn serve(&self, write: &(dyn Fn(&str) + Sync)) -> Result<(), Error> {
        let log = ConnectionLog::new(write);
        let served = thread::scope(|scope| {
            while !self.node.interrupt.is_requested() {
                log.log_dropped(false);
                let Some((stream, from)) = self.next()? else { continue };
                let stream = Arc::new(stream);
                let Some(place) = self.admission.acquire_slot(&stream, from) else {
                    reject(&stream);
                    log.log_rejected();
                    continue;
                };
                let log = &log;
                let handled = move || self.serve_connection(stream, &place, log);
                // Without a thread there is no talk: the client sees that the connection is closed.
                if thread::Builder::new().spawn_scoped(scope, handled).is_err() {
                    log.log_rejected();
                }
            }
            Ok(())
        });
        log.log_dropped(true);
        served
    }

    /// The next connection, if one comes soon.
    fn next(&self) -> Result<Option<(TcpStream, IpAddr)>, Error> {
        let accepted = match self.listener.accept() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let mut waiting = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
                // A signal interrupts it, or not: it is short.
                let _ = poll(&mut waiting, PollTimeout::from(100u8));
                self.listener.accept()
            }
            accepted => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                let blocking = stream.set_nonblocking(false);
                Ok(blocking.is_ok().then_some((stream, from.ip())))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The peer is gone already, or descriptors are scarce for a moment.
            Err(e) if e.raw_os_error().is_some() => {
                thread::sleep(POLL_INTERVAL);
                Ok(None)
            }
            Err(source) => Err(failed("accept a connection")(source)),
        }
    }

    /// A connection, from its first line to its end.
    fn serve_connection(&self, stream: Arc<TcpStream>, place: &ConnectionSlot<'_>, log: &ConnectionLog<'_>) {
        let mut wire = match self.authenticate(stream, place) {
            Ok(wire) => wire,
            Err(_) if self.node.interrupt.is_requested() => return,
            Err(error) => return log.log_unauthenticated(&error.to_string()),
        };
        if let Err(error) = self.serve_client(&mut wire, place, log) {
            log.log_client(&error.to_string());
        }
    }

    /// A stranger who becomes a client.
    fn authenticate(
        &self,
        stream: Arc<TcpStream>,
        place: &ConnectionSlot<'_>,
    ) -> Result<MessageStream, Error> {
        let mut wire = MessageStream::new(stream)?;
        let local = wire.local();
        let admit = |to: Option<IpAddr>| {
            self.is_own_address(to, local)?;
            if place.promote_to_client() {
                Ok(())
            } else {
                Err(busy("too many clients are connected, and all have tests"))
            }
        };
        match handshake::accept_handshake(
            &mut wire,
            self.settings.token.as_ref(),
            &self.node.interrupt,
            admit,
        ) {
            Err(_) if place.is_closed() => Err(Error::GaveWay { peer: wire.peer().to_string() }),
            accepted => accepted.map(|()| wire),
        }
    }

    /// Whether the address that a client has connected to is this agent's. If it is another's, that one passes on what it
    /// is sent, and its own results would be this node's.
    fn is_own_address(&self, to: Option<IpAddr>, local: Option<IpAddr>) -> Result<(), AgentRefusal> {
        let Some(to) = to.map(|to| to.to_canonical()) else { return Ok(()) };
        if local == Some(to) || self.settings.known_as.contains(&to) {
            return Ok(());
        }
        let local = local.map_or_else(|| "unknown".into(), |local| local.to_string());
        let message = format!(
            "you asked for {to}, and this agent's address is {local}: another host passes on what you say; if an address \
             is translated between you on purpose, start this agent with --known-as {to}"
        );
        Err(AgentRefusal { reason: RefusalReason::Address, message: message.into() })
    }
}

/// Closes a connection of a source that has too many, without a word and so that the kernel forgets it at once.
fn reject(stream: &TcpStream) {
    let _ = setsockopt(stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 });
}

#[cfg(test)]
mod tests;
