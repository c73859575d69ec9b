//! The end that listens for test requests and serves them, at most one test at a time on each RDMA port.
//!
//! Each connection has a thread of its own. It starts unauthenticated, with a few seconds to complete the handshake, and
//! then becomes a client. `admission.rs` limits the number of both, in total and by source.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::Arc,
    thread,
};

use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{Backlog, listen, setsockopt, sockopt},
};

use crate::{
    Error,
    error::io as failed,
    local_end::LocalContext,
    protocol::{AgentRefusal, MessageStream, RefusalReason, handshake},
};

mod admission;
mod held_governors;
mod log;
mod options;
mod rail_limit;
mod service;

use admission::{ConnectionLimiter, ConnectionSlot};
use log::ConnectionLog;
pub use options::AgentOptions;
use service::{POLL_INTERVAL, TestService, busy};

/// A listening agent.
#[derive(Debug)]
pub struct Agent<'a> {
    listener: TcpListener,
    service: TestService<'a>,
    admission: ConnectionLimiter,
}

impl<'a> Agent<'a> {
    /// Binds the TCP socket and listens.
    ///
    /// # Errors
    /// [`Error::Open`] if there is no token and `address` is not a loopback address; [`Error::Io`].
    pub fn listen(
        address: SocketAddr,
        settings: AgentOptions<'a>,
        node: &'a LocalContext,
    ) -> Result<Self, Error> {
        if settings.token.is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(Error::Open { address: address.to_string() });
        }
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            // The backlog of std is 128. One fast source would fill it and delay the connections of others.
            listen(&listener, Backlog::MAXCONN)?;
            Ok(listener)
        });
        let listener = listener.map_err(failed(format!("listen on {address}")))?;
        let service = TestService::new(settings, node);
        Ok(Self { listener, service, admission: ConnectionLimiter::default() })
    }

    /// Returns the address and the port that the agent listens on.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(failed("get the listening address"))
    }

    /// Serves connections until the process is interrupted. Calls `write` with one line for each test and for each error;
    /// the rate of these lines is limited.
    ///
    /// # Errors
    /// [`Error::Io`] if the socket fails.
    pub fn serve(&self, write: &(dyn Fn(&str) + Sync)) -> Result<(), Error> {
        let log = ConnectionLog::new(write);
        let served = thread::scope(|scope| {
            while !self.service.node.interrupt.is_requested() {
                log.log_dropped(false);
                let Some((stream, from)) = self.next()? else { continue };
                let stream = Arc::new(stream);
                let Some(slot) = self.admission.acquire_slot(&stream, from) else {
                    reject(&stream);
                    log.log_rejected();
                    continue;
                };
                let log = &log;
                let handled = move || self.serve_connection(stream, &slot, log);
                // If no thread can be created, the connection is dropped and the client sees that it is closed.
                if thread::Builder::new().spawn_scoped(scope, handled).is_err() {
                    log.log_rejected();
                }
            }
            Ok(())
        });
        log.log_dropped(true);
        served
    }

    /// Returns the next connection, or `None` if none arrives within 100 ms.
    fn next(&self) -> Result<Option<(TcpStream, IpAddr)>, Error> {
        let accepted = match self.listener.accept() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let mut waiting = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
                // The result does not matter: the wait is short, whether or not a signal interrupts it.
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
            // The peer has already closed the connection, or the process has no free file descriptors.
            Err(e) if e.raw_os_error().is_some() => {
                thread::sleep(POLL_INTERVAL);
                Ok(None)
            }
            Err(source) => Err(failed("accept a connection")(source)),
        }
    }

    /// Serves a connection from the handshake until it is closed.
    fn serve_connection(&self, stream: Arc<TcpStream>, slot: &ConnectionSlot<'_>, log: &ConnectionLog<'_>) {
        let mut wire = match self.authenticate(stream, slot) {
            Ok(wire) => wire,
            Err(_) if self.service.node.interrupt.is_requested() => return,
            Err(error) => return log.log_unauthenticated(&error.to_string()),
        };
        if let Err(error) = self.service.serve_client(&mut wire, slot, log) {
            log.log_client(&error.to_string());
        }
    }

    /// Completes the handshake: an unauthenticated connection becomes a client.
    fn authenticate(
        &self,
        stream: Arc<TcpStream>,
        slot: &ConnectionSlot<'_>,
    ) -> Result<MessageStream, Error> {
        let mut wire = MessageStream::new(stream)?;
        let local = wire.local();
        let admit = |to: Option<IpAddr>| {
            self.is_own_address(to, local)?;
            if slot.promote_to_client() {
                Ok(())
            } else {
                Err(busy("too many clients are connected, and all of them run tests"))
            }
        };
        match handshake::accept_handshake(
            &mut wire,
            self.service.settings.token.as_ref(),
            &self.service.node.interrupt,
            admit,
        ) {
            Err(_) if slot.is_closed() => Err(Error::Evicted { peer: wire.peer().to_string() }),
            accepted => accepted.map(|()| wire),
        }
    }

    /// Checks that the address which a client connected to is an address of this agent. Otherwise another host relays the
    /// connection, and the client would attribute this node's results to that host.
    fn is_own_address(&self, to: Option<IpAddr>, local: Option<IpAddr>) -> Result<(), AgentRefusal> {
        let Some(to) = to.map(|to| to.to_canonical()) else { return Ok(()) };
        if local == Some(to) || self.service.settings.known_as.contains(&to) {
            return Ok(());
        }
        let local = local.map_or_else(|| "unknown".into(), |local| local.to_string());
        let message = format!(
            "the client connected to {to}, but this agent's address is {local}: another host relays the connection; if \
             an address is translated on purpose, start this agent with --known-as {to}"
        );
        Err(AgentRefusal { reason: RefusalReason::Address, message: message.into() })
    }
}

/// Closes a connection of a source that has too many, with a TCP reset (`SO_LINGER` with a timeout of 0).
fn reject(stream: &TcpStream) {
    let _ = setsockopt(stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 });
}

#[cfg(test)]
mod tests;
