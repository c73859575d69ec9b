//! A server that forwards requests for the page to a daemon, and serves snapshots from recordings.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::Value;

use crate::daemon::PageDaemon;

pub(crate) struct Replay {
    address: String,
}

impl Replay {
    /// Serves the recordings one after the other, and then an error.
    pub(crate) fn start(daemon: &PageDaemon, responses: &[Value]) -> Self {
        let responses: Vec<String> = responses.iter().map(Value::to_string).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let daemon = daemon.address.clone();
        // The thread ends with the process of the test.
        thread::spawn(move || {
            let count = AtomicUsize::new(0);
            thread::scope(|threads| {
                for client in listener.incoming() {
                    let (daemon, responses, count) = (&daemon, &responses, &count);
                    threads.spawn(move || serve(client.unwrap(), daemon, responses, count));
                }
            });
        });
        Self { address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

/// Serves one request. An error is ignored: a browser may open a connection in advance and close it.
fn serve(mut client: TcpStream, daemon: &str, responses: &[String], count: &AtomicUsize) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        request.extend(byte);
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split(' ').nth(1).unwrap_or_default();
    if path == "/api/v1/node" {
        let (status, body) = match responses.get(count.fetch_add(1, Ordering::SeqCst)) {
            Some(body) => ("200 OK", body.as_str()),
            None => ("503 Service Unavailable", "the recording has ended"),
        };
        let length = body.len();
        write!(client, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")?;
    } else {
        let mut server = TcpStream::connect(daemon)?;
        write!(server, "GET {path} HTTP/1.1\r\nHost: {daemon}\r\nConnection: close\r\n\r\n")?;
        io::copy(&mut server, &mut client)?;
    }
    client.shutdown(Shutdown::Both)
}
