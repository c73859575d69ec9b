//! Where clients connect.

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

/// What the kernel keeps for a client that does not read, which counts as this program's memory; it doubles it.
const SEND_BUFFER: u32 = 128 * 1024;

/// Connections that nobody has taken from the kernel yet.
const BACKLOG: u32 = 1024;

/// How often is said that connections cannot be taken.
const ACCEPT_ERROR_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    said: Option<Instant>,
}

impl Listener {
    /// Listens on an address.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.set_send_buffer_size(SEND_BUFFER)?; // every connection has it from here
        socket.bind(address)?;
        Ok(Self { socket: socket.listen(BACKLOG)?, said: None })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The next connection, and whose it is.
    pub(super) async fn accept(&mut self) -> (TcpStream, IpAddr) {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => return (stream, host_prefix(peer.ip())),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.log_limited(&error);
                    sleep(Duration::from_millis(100)).await; // out of files: some will be closed
                }
            }
        }
    }

    fn log_limited(&mut self, error: &io::Error) {
        if self.said.is_none_or(|said| said.elapsed() > ACCEPT_ERROR_LOG_INTERVAL) {
            self.said = Some(Instant::now());
            tracing::warn!("accept a connection: {error}");
        }
    }
}
