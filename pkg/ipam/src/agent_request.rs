//! The request of a plugin to the agent of its node, `silkraild ipam`.
//!
//! Over a Unix stream socket, each side sends one line with a JSON object: `{"pools": ["v4-81"], "address": "10.0.0.5"}` or
//! `{"pod": "<UID>"}` or `{"pod": "<UID>", "interface": "net1", "reserve": [{"pool": "v4-81", "address": "10.0.0.5"}]}`, and `{}`, `{"pool": "v4-81"}` or `{"error": "…", "retry": true}`.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::IpAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::ReservedAddress;

/// The maximum length of a line in bytes.
const MAX_LINE: u64 = 1 << 20;

/// What a plugin needs before it can assign an address.
#[derive(Debug, Clone, Copy)]
pub enum AgentRequest<'a> {
    /// A block with a free address of one of these pools.
    BlockOf(&'a [&'a str]),
    /// The block with this address of a pool.
    BlockWith(&'a str, IpAddr),
    /// The file of the pod with this UID.
    Pod(&'a str),
    /// That addresses are reserved for a pod that is created again under the same name.
    Reserve {
        /// The UID of the pod.
        pod: &'a str,
        /// The name of its interface.
        interface: &'a str,
        /// The addresses that it has.
        addresses: &'a [ReservedAddress],
        /// Those that were reserved for it before, according to its file.
        before: &'a [ReservedAddress],
    },
}

/// A request was not fulfilled.
#[derive(Debug, thiserror::Error)]
pub enum AgentRequestError {
    /// The daemon cannot be reached.
    #[error("{}: {source}; is `silkraild ipam` running on this node?", path.display())]
    Socket {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The daemon has refused the request.
    #[error("{0}")]
    Refused(String),
    /// The daemon cannot fulfil the request at present.
    #[error("{0}; try again later")]
    Unavailable(String),
}

impl AgentRequest<'_> {
    /// Sends the request, and returns when it was fulfilled: for a block of one of several pools, the name of the pool.
    ///
    /// # Errors
    /// [`AgentRequestError`].
    pub fn send(self, socket: &Path, deadline: Instant) -> Result<Option<String>, AgentRequestError> {
        let failed = |source| AgentRequestError::Socket { path: socket.to_owned(), source };
        let reply = exchange(socket, &self.to_json(), deadline).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AgentRequestError::Unavailable(format!(
                "{}: the daemon did not answer in time",
                socket.display()
            )),
            _ => failed(error),
        })?;
        let Some(error) = reply.get("error") else {
            return Ok(reply.get("pool").and_then(Value::as_str).map(str::to_owned));
        };
        let text = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        Err(match reply.get("retry").and_then(Value::as_bool) {
            Some(true) => AgentRequestError::Unavailable(text),
            _ => AgentRequestError::Refused(text),
        })
    }

    fn to_json(self) -> Value {
        match self {
            Self::BlockOf(pools) => json!({"pools": pools}),
            Self::BlockWith(pool, address) => json!({"pools": [pool], "address": address.to_string()}),
            Self::Pod(uid) => json!({"pod": uid}),
            Self::Reserve { pod, interface, addresses, before } => json!({
                "pod": pod,
                "interface": interface,
                "reserve": ReservedAddress::list_to_json(addresses),
                "before": ReservedAddress::list_to_json(before),
            }),
        }
    }
}

fn exchange(socket: &Path, request: &Value, deadline: Instant) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE)).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the daemon closed the connection without an answer",
        ));
    }
    serde_json::from_str(&line).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, thread};

    use super::*;

    /// Returns the request that the daemon gets, and the result for this answer of it.
    fn answered(
        wanted: AgentRequest<'_>,
        answer: &str,
    ) -> (Value, Result<Option<String>, AgentRequestError>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        thread::scope(|scope| {
            let daemon = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                serde_json::from_str(&line).unwrap()
            });
            let deadline = Instant::now() + Duration::from_secs(5);
            let result = wanted.send(&path, deadline);
            (daemon.join().unwrap(), result)
        })
    }

    #[test]
    fn the_daemon_answers_with_one_line() {
        let block = AgentRequest::BlockOf(&["a", "b"]);
        let address = [10, 0, 0, 1].into();
        let reserved = [ReservedAddress { pool: "a".to_owned(), address }];
        for (wanted, text) in [
            (block, json!({"pools": ["a", "b"]})),
            (AgentRequest::BlockWith("a", address), json!({"pools": ["a"], "address": "10.0.0.1"})),
            (
                AgentRequest::Reserve { pod: "u", interface: "net1", addresses: &[], before: &reserved },
                json!({"pod": "u", "interface": "net1", "reserve": [], "before": [{"pool": "a", "address": "10.0.0.1"}]}),
            ),
            (AgentRequest::Pod("u-1"), json!({"pod": "u-1"})),
        ] {
            let (request, result) = answered(wanted, "{}\n");
            assert_eq!(request, text);
            result.unwrap();
        }
        assert_eq!(answered(block, "{\"pool\": \"b\"}\n").1.unwrap().as_deref(), Some("b"));
        let refused = answered(block, "{\"error\": \"no block is left\"}\n").1.unwrap_err();
        assert!(
            matches!(&refused, AgentRequestError::Refused(text) if text == "no block is left"),
            "{refused}"
        );
        let later = answered(block, "{\"error\": \"no API server\", \"retry\": true}\n").1.unwrap_err();
        assert_eq!(later.to_string(), "no API server; try again later");
        for bad in ["", "{}", "x\n"] {
            assert!(matches!(answered(block, bad).1, Err(AgentRequestError::Socket { .. })), "{bad}");
        }
    }

    #[test]
    fn a_daemon_that_is_missing_or_silent_is_an_error_in_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let soon = || Instant::now() + Duration::from_millis(50);
        let missing = AgentRequest::BlockOf(&[]).send(&path, soon()).unwrap_err().to_string();
        assert!(missing.contains("is `silkraild ipam` running"), "{missing}");
        let _listener = UnixListener::bind(&path).unwrap();
        let silent = AgentRequest::BlockOf(&[]).send(&path, soon()).unwrap_err();
        assert!(matches!(silent, AgentRequestError::Unavailable(_)), "{silent}");
    }
}
