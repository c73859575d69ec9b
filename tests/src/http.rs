//! An HTTP client for single requests, and addresses that no other test uses.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

/// A response to an HTTP request.
#[derive(Debug)]
pub struct HttpReply {
    /// Status code.
    pub status: u16,
    /// Headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Body, as received.
    pub body: Vec<u8>,
}

/// Returns an address for a program that does not report the port it chose. No other process has this loopback address, and no
/// connection gets the port, which is below those of connections.
pub fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(30_000);
    let [_, high, middle, low] = process::id().to_be_bytes();
    (Ipv4Addr::new(127, 64 | high, middle, low), NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

/// Returns the response to a request without a body: `GET /metrics HTTP/1.1`. With HTTP/1.0 the server sends no chunks.
///
/// # Panics
/// If there is no response.
pub fn request(address: SocketAddr, request: &str, headers: &[(&str, &str)]) -> HttpReply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("{request}\r\nHost: lab\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    HttpReply::parse(&bytes)
}

/// Returns a text with percent-encoding for a query string.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}

impl HttpReply {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a response has a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(": ").map(|(n, v)| (n.to_lowercase(), v.to_owned()));
        Self { status, headers: lines.filter_map(header).collect(), body: bytes[end + 4..].to_vec() }
    }

    /// Returns the body as text.
    ///
    /// # Panics
    /// If it is not valid UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}
