//! Requests to an HTTP server on a Unix socket.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

/// The maximum length of a response in bytes.
const MAX_RESPONSE: u64 = 1 << 20;

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Sends a request and returns the response. HTTP/1.0: the response ends with the connection, so it needs no decoding.
///
/// # Errors
/// The error of the socket; [`io::ErrorKind::InvalidData`] if the response is not HTTP.
pub(crate) fn request(
    socket: &Path,
    method: &str,
    target: &str,
    body: &str,
    deadline: Instant,
) -> io::Result<HttpResponse> {
    let mut stream = UnixStream::connect(socket)?;
    let left = || deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_write_timeout(Some(left()))?;
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes())?;
    let mut response = Vec::new();
    let mut part = [0; 4096];
    loop {
        // Each read must not wait beyond the deadline of all.
        stream.set_read_timeout(Some(left()))?;
        match stream.read(&mut part)? {
            0 => break,
            read => response.extend_from_slice(&part[..read]),
        }
        if response.len() as u64 > MAX_RESPONSE {
            return Err(invalid("the response is longer than 1 MiB"));
        }
    }
    parse(&response)
}

fn parse(response: &[u8]) -> io::Result<HttpResponse> {
    let text = str::from_utf8(response).map_err(|_| invalid("the response is not UTF-8"))?;
    let (head, body) =
        text.split_once("\r\n\r\n").ok_or_else(|| invalid("the response has no end of its header"))?;
    let status =
        head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| invalid("the response is not HTTP"))?;
    Ok(HttpResponse { status, body: body.to_owned() })
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_parsed() {
        let response =
            parse(b"HTTP/1.0 500 Internal Server Error\r\nContent-Type: application/json\r\n\r\n\"no\"\n")
                .unwrap();
        assert_eq!(response, HttpResponse { status: 500, body: "\"no\"\n".to_owned() });
        assert_eq!(parse(b"HTTP/1.1 521 \r\n\r\n").unwrap().status, 521);
        for bad in
            ["", "HTTP/1.0 200 OK\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.0 x\r\n\r\n", "HTTP/1.0 2\r\n\r\n"]
        {
            assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
