//! The TCP listener.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ratelimit::host_prefix;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, sleep},
};

/// The send buffer of a connection, in bytes. It counts as memory of this process; the kernel doubles it.
const SEND_BUFFER: u32 = 128 * 1024;

/// The backlog of listen(2): connections that are not accepted yet.
const BACKLOG: u32 = 1024;

/// Minimum interval between log lines about failed accepts.
const ACCEPT_ERROR_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    last_logged: Option<Instant>,
}

impl Listener {
    /// Binds to the address and listens.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.set_send_buffer_size(SEND_BUFFER)?; // accepted connections inherit it
        socket.bind(address)?;
        Ok(Self { socket: socket.listen(BACKLOG)?, last_logged: None })
    }

    /// Returns the local address, with the port that the kernel has chosen for port 0.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the next connection and its source: an IPv4 address or an IPv6 /64.
    pub(super) async fn accept(&mut self) -> (TcpStream, IpAddr) {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => return (stream, host_prefix(peer.ip())),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.log_limited(&error);
                    sleep(Duration::from_millis(100)).await; // the limit of open files: some will be closed
                }
            }
        }
    }

    fn log_limited(&mut self, error: &io::Error) {
        if self.last_logged.is_none_or(|last_logged| last_logged.elapsed() > ACCEPT_ERROR_LOG_INTERVAL) {
            self.last_logged = Some(Instant::now());
            tracing::warn!("failed to accept a connection: {error}");
        }
    }
}
