//! Requests to the daemon of a node.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use crate::{
    NodeAddress, TlsFileError, TlsFiles,
    http_reply::{self, InvalidReply},
};

/// The path that is requested.
const PATH: &str = "/api/v1/node";
/// A reply of a node with hundreds of devices and pods has a few megabytes.
const MAX_REPLY_BYTES: usize = 32 << 20;

/// A client of daemons.
#[derive(Debug, Clone)]
pub struct DaemonClient {
    timeout: Duration,
    token: Option<String>,
    tls: Option<Arc<ClientConfig>>,
}

/// A node could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The name has no address.
    #[error("the host has no address: {0}")]
    Resolve(io::Error),
    /// No connection, or a broken one.
    #[error("{0}")]
    Connection(io::Error),
    /// No complete reply in time.
    #[error("no reply within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The reply is too large.
    #[error("the reply has more than {} MiB", MAX_REPLY_BYTES >> 20)]
    TooLarge,
    /// TLS failed.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// The name is not valid in a certificate.
    #[error("{0:?} is no name for TLS")]
    ServerName(String),
    /// The reply cannot be used.
    #[error(transparent)]
    Reply(#[from] InvalidReply),
}

impl DaemonClient {
    /// Returns a client for these addresses. The files of TLS are read only if an address needs them.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub fn new(
        addresses: &[NodeAddress],
        timeout: Duration,
        token: Option<String>,
        files: &TlsFiles,
    ) -> Result<Self, TlsFileError> {
        let tls = addresses.iter().any(|address| address.is_tls).then(|| files.config()).transpose()?;
        Ok(Self { timeout, token, tls })
    }

    /// Returns the JSON of a node.
    ///
    /// # Errors
    /// [`FetchError`], at the latest when the time is over.
    pub fn fetch(&self, address: &NodeAddress) -> Result<Vec<u8>, FetchError> {
        let deadline = Instant::now() + self.timeout;
        let stream = DeadlineStream { stream: self.connect(address, deadline)?, deadline };
        let reply = match &self.tls {
            Some(config) if address.is_tls => {
                let name = ServerName::try_from(address.host.clone())
                    .map_err(|_| FetchError::ServerName(address.host.clone()))?;
                let connection = ClientConnection::new(config.clone(), name).map_err(FetchError::Tls)?;
                self.exchange(StreamOwned::new(connection, stream), address)
            }
            _ => self.exchange(stream, address),
        };
        Ok(http_reply::body(&reply?)?)
    }

    fn connect(&self, address: &NodeAddress, deadline: Instant) -> Result<TcpStream, FetchError> {
        let resolved =
            (address.host.as_str(), address.port).to_socket_addrs().map_err(FetchError::Resolve)?;
        connect_any(resolved, deadline).map_err(|error| self.failed(error, deadline))
    }

    fn exchange(&self, mut stream: impl Read + Write, address: &NodeAddress) -> Result<Vec<u8>, FetchError> {
        let token =
            self.token.as_ref().map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!(
            "GET {PATH} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\n{token}Connection: close\r\n\r\n"
        );
        let io = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => FetchError::TimedOut(self.timeout),
            _ => FetchError::Connection(error),
        };
        stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).map_err(io)?;
        let (mut reply, mut buffer) = (Vec::new(), [0; 16 << 10]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(reply),
                Ok(length) => reply.extend_from_slice(&buffer[..length]),
                // A server that closes without TLS's own end: the length in the reply tells whether it is complete.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(reply),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io(error)),
            }
            if reply.len() > MAX_REPLY_BYTES {
                return Err(FetchError::TooLarge);
            }
        }
    }

    fn failed(&self, error: io::Error, deadline: Instant) -> FetchError {
        match deadline.saturating_duration_since(Instant::now()).is_zero() {
            true => FetchError::TimedOut(self.timeout),
            false => FetchError::Connection(error),
        }
    }
}

/// Connects to the first of the addresses that accepts a connection.
fn connect_any(addresses: impl IntoIterator<Item = SocketAddr>, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A stream whose reads and writes end at a deadline, however slowly the other end sends.
#[derive(Debug)]
struct DeadlineStream {
    stream: TcpStream,
    deadline: Instant,
}

impl DeadlineStream {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use rustls::RootCertStore;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn only_an_https_address_is_asked_with_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            String::from_utf8(head).unwrap()
        });
        let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let client = DaemonClient { timeout: TIMEOUT, token: Some("abc".into()), tls: Some(Arc::new(tls)) };
        assert_eq!(client.fetch(&address).unwrap(), b"{}");
        let head = server.join().unwrap();
        assert!(head.starts_with("GET /api/v1/node HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nAuthorization: Bearer abc\r\n"), "{head}");
    }

    #[test]
    fn the_next_address_of_a_host_is_tried_if_one_refuses() {
        let closed = "127.0.0.1:1".parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let connect = |addresses: &[SocketAddr]| connect_any(addresses.to_vec(), Instant::now() + TIMEOUT);
        assert_eq!(connect(&[closed, open]).unwrap().peer_addr().unwrap(), open);
        assert_eq!(connect(&[closed]).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
