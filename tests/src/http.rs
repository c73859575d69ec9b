//! HTTP, by a client that asks once.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// An answer to an HTTP request.
#[derive(Debug)]
pub struct HttpReply {
    /// Its status.
    pub status: u16,
    /// Its headers, in small letters.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
}

/// What a server answers to a request without a body: `GET /metrics HTTP/1.1`. With HTTP/1.0 it sends no chunks.
///
/// # Panics
/// If it does not answer.
pub fn ask(address: SocketAddr, request: &str, headers: &[(&str, &str)]) -> HttpReply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("{request}\r\nHost: lab\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    HttpReply::parse(&bytes)
}

/// A text as it may stand in a query.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}

impl HttpReply {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(": ").map(|(n, v)| (n.to_lowercase(), v.to_owned()));
        Self { status, headers: lines.filter_map(header).collect(), body: bytes[end + 4..].to_vec() }
    }

    /// The body as text.
    ///
    /// # Panics
    /// If it is none.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}
