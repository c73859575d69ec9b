//! A client that scrapes as Prometheus does, over TCP or TLS.

use std::{
    io::{Read, Write},
    net::TcpStream,
    thread::sleep,
    time::Instant,
};

use bench::secure::TlsSetup;

use crate::{PAUSE, Result};

/// Scrapes the uncompressed text. Returns the duration in milliseconds, and the response. Its memory is allocated before the
/// request, as in a scraper.
pub(crate) fn get(address: &str, secure: Option<&TlsSetup>) -> Result<(f64, String)> {
    let (time, response) = request(address, secure, "identity")?;
    Ok((time, String::from_utf8(response)?))
}

fn request(address: &str, secure: Option<&TlsSetup>, encoding: &str) -> Result<(f64, Vec<u8>)> {
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: lab\r\nAccept-Encoding: {encoding}\r\nConnection: close\r\n\r\n"
    );
    let mut response = vec![1; 8 << 20];
    response.clear();
    let began = Instant::now();
    let mut stream = connect(address, secure)?;
    stream.write_all(request.as_bytes())?;
    stream.read_to_end(&mut response)?;
    Ok((began.elapsed().as_secs_f64() * 1e3, response))
}

trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

fn connect(address: &str, secure: Option<&TlsSetup>) -> Result<Box<dyn Connection>> {
    let stream = TcpStream::connect(address)?;
    Ok(match secure {
        Some(secure) => Box::new(secure.connect(stream)?),
        None => Box::new(stream),
    })
}

/// A persistent connection with compressed responses, as Prometheus uses it.
pub(crate) struct KeptConnection<'a> {
    address: &'a str,
    secure: Option<&'a TlsSetup>,
    stream: Box<dyn Connection>,
}

impl<'a> KeptConnection<'a> {
    /// Connects, and scrapes once: TLS makes its handshake with the first request.
    pub(crate) fn open(address: &'a str, secure: Option<&'a TlsSetup>) -> Result<Self> {
        let mut kept = Self { address, secure, stream: connect(address, secure)? };
        kept.scrape()?.ok_or("the first response is incomplete")?;
        Ok(kept)
    }

    /// Scrapes once. Returns the duration in milliseconds. silkraild closes a connection after a minute: then a new one is
    /// opened first.
    pub(crate) fn time_scrape(&mut self) -> Result<f64> {
        if let Ok(Some(time)) = self.scrape() {
            return Ok(time);
        }
        *self = Self::open(self.address, self.secure)?;
        sleep(PAUSE);
        self.scrape()?.ok_or_else(|| "a response is incomplete".into())
    }

    /// `None` if the connection was closed.
    fn scrape(&mut self) -> Result<Option<f64>> {
        let began = Instant::now();
        self.stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: lab\r\nAccept-Encoding: gzip\r\n\r\n")?;
        let mut response = Vec::with_capacity(1 << 20);
        let mut part = vec![0; 64 << 10];
        loop {
            let read = self.stream.read(&mut part)?;
            if read == 0 {
                return Ok(None);
            }
            response.extend_from_slice(part.get(..read).unwrap_or_default());
            if is_whole(&response)? {
                return Ok(Some(began.elapsed().as_secs_f64() * 1e3));
            }
        }
    }
}

/// Returns whether a compressed response is complete.
fn is_whole(response: &[u8]) -> Result<bool> {
    let Some(end) = response.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(false) };
    let head = String::from_utf8_lossy(response.get(..end).unwrap_or_default()).to_ascii_lowercase();
    if !head.contains("content-encoding: gzip") {
        return Err(format!("not compressed: {head}").into());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.ok_or("no content-length")?.trim().parse()?;
    Ok(response.len() >= end + 4 + length)
}
