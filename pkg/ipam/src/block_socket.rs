//! The request of a plugin to the daemon of its node for a block of a cluster's pool.
//!
//! Over a Unix stream socket, each side sends one line with a JSON object: `{"pools": ["v4-81"], "address": "10.0.0.5"}` and
//! `{}` or `{"error": "…", "retry": true}`.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::IpAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// The maximum length of a line in bytes.
const MAX_LINE: u64 = 1 << 20;

/// The node has no block with a free address, and gets none.
#[derive(Debug, thiserror::Error)]
pub enum BlockRequestError {
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
    /// The daemon cannot get a block at present.
    #[error("{0}; try again later")]
    Unavailable(String),
}

/// Requests a block with a free address of one of these pools, or the block with that address. Returns when the node has it.
///
/// # Errors
/// [`BlockRequestError`].
pub fn request_block(
    socket: &Path,
    pools: &[&str],
    address: Option<IpAddr>,
    deadline: Instant,
) -> Result<(), BlockRequestError> {
    let failed = |source| BlockRequestError::Socket { path: socket.to_owned(), source };
    let reply = exchange(socket, pools, address, deadline).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            BlockRequestError::Unavailable(format!("{}: the daemon did not answer in time", socket.display()))
        }
        _ => failed(error),
    })?;
    let Some(error) = reply.get("error") else { return Ok(()) };
    let text = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
    Err(match reply.get("retry").and_then(Value::as_bool) {
        Some(true) => BlockRequestError::Unavailable(text),
        _ => BlockRequestError::Refused(text),
    })
}

fn exchange(socket: &Path, pools: &[&str], address: Option<IpAddr>, deadline: Instant) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))?;
    let address = address.map(|address| address.to_string());
    stream.write_all(format!("{}\n", json!({"pools": pools, "address": address})).as_bytes())?;
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
    fn answered(answer: &str) -> (Value, Result<(), BlockRequestError>) {
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
            let result = request_block(&path, &["a", "b"], Some(IpAddr::from([10, 0, 0, 1])), deadline);
            (daemon.join().unwrap(), result)
        })
    }

    #[test]
    fn the_daemon_answers_with_one_line() {
        let (request, result) = answered("{}\n");
        assert_eq!(request, json!({"pools": ["a", "b"], "address": "10.0.0.1"}));
        result.unwrap();
        let refused = answered("{\"error\": \"no block is left\"}\n").1.unwrap_err();
        assert!(
            matches!(&refused, BlockRequestError::Refused(text) if text == "no block is left"),
            "{refused}"
        );
        let later = answered("{\"error\": \"no API server\", \"retry\": true}\n").1.unwrap_err();
        assert_eq!(later.to_string(), "no API server; try again later");
        for bad in ["", "{}", "x\n"] {
            assert!(matches!(answered(bad).1, Err(BlockRequestError::Socket { .. })), "{bad}");
        }
    }

    #[test]
    fn a_daemon_that_is_missing_or_silent_is_an_error_in_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let soon = || Instant::now() + Duration::from_millis(50);
        let missing = request_block(&path, &[], None, soon()).unwrap_err().to_string();
        assert!(missing.contains("is `silkraild ipam` running"), "{missing}");
        let _listener = UnixListener::bind(&path).unwrap();
        let silent = request_block(&path, &[], None, soon()).unwrap_err();
        assert!(matches!(silent, BlockRequestError::Unavailable(_)), "{silent}");
    }
}
