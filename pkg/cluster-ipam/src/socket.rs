//! The socket of the agent. The other side is [`ipam::AgentRequest`].

use std::{
    fs::Permissions,
    io,
    net::IpAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use crate::ip_reservation::ReservedAddress;

/// The number of plugins that can wait at the same time.
const MAX_CONNECTIONS: usize = 1024;
/// The maximum length of a request in bytes.
const MAX_REQUEST: u64 = 1 << 20;
/// The timeout for receiving a request and for sending an answer.
const IO_TIMEOUT: Duration = Duration::from_secs(5);
/// The time after which a plugin gets an answer in any case. It waits for 20 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(18);
/// The time after which a plugin gets a failure as its answer. Until then, requests to the API server are repeated.
pub(crate) const FAILURE_DELAY: Duration = Duration::from_secs(12);

/// A request of a plugin for a block.
#[derive(Debug, Deserialize)]
pub(crate) struct BlockRequest {
    /// The pools from which it needs an address, in the order in which they are tried.
    pub(crate) pools: Vec<String>,
    /// The address that it needs.
    #[serde(default)]
    pub(crate) address: Option<IpAddr>,
}

/// A request of a plugin for what is known about a pod.
#[derive(Debug, Deserialize)]
pub(crate) struct PodRequest {
    /// The UID of the pod.
    pub(crate) pod: String,
}

/// A request of a plugin to reserve the addresses of a pod.
#[derive(Debug, Deserialize)]
pub(crate) struct ReserveRequest {
    /// The UID of the pod.
    pub(crate) pod: String,
    /// The name of its interface.
    pub(crate) interface: String,
    /// The addresses.
    pub(crate) reserve: Vec<ReservedAddress>,
    /// Those that were reserved before, as the plugin knows.
    #[serde(default)]
    pub(crate) before: Vec<ReservedAddress>,
}

/// A request of a plugin.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum AnyRequest {
    // It has the keys of the next one, too.
    Reserve(ReserveRequest),
    Pod(PodRequest),
    Block(BlockRequest),
}

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct AgentAnswer {
    /// Why the request is not fulfilled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Whether it may be fulfilled later.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) retry: bool,
    /// The pool of which the node has a free address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pool: Option<String>,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(crate) struct Waiting<R> {
    pub(crate) request: R,
    /// When it was received.
    pub(crate) since: Instant,
    answer: oneshot::Sender<AgentAnswer>,
}

/// A request that was received.
#[derive(Debug)]
pub(crate) enum Received {
    Block(Waiting<BlockRequest>),
    Pod(Waiting<PodRequest>),
    Reserve(Waiting<ReserveRequest>),
}

impl<R> Waiting<R> {
    pub(crate) fn new(request: R, answer: oneshot::Sender<AgentAnswer>) -> Self {
        Self { request, since: Instant::now(), answer }
    }

    /// Answers. The plugin may have gone.
    pub(crate) fn answer(self, answer: AgentAnswer) {
        let _ = self.answer.send(answer);
    }

    /// Returns the request, and the function that answers it.
    pub(crate) fn split(self) -> (R, impl FnOnce(AgentAnswer)) {
        let Self { request, answer, .. } = self;
        (request, move |to| drop(answer.send(to)))
    }

    /// Whether the plugin has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.answer.is_closed()
    }
}

impl Received {
    /// Whether the plugin has gone.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Block(waiting) => waiting.is_closed(),
            Self::Pod(waiting) => waiting.is_closed(),
            Self::Reserve(waiting) => waiting.is_closed(),
        }
    }

    /// Answers.
    pub(crate) fn answer(self, answer: AgentAnswer) {
        match self {
            Self::Block(waiting) => waiting.answer(answer),
            Self::Pod(waiting) => waiting.answer(answer),
            Self::Reserve(waiting) => waiting.answer(answer),
        }
    }
}

impl AgentAnswer {
    /// The node has a free address of this pool.
    pub(crate) fn of_pool(name: &str) -> Self {
        Self { pool: Some(name.to_owned()), ..Self::default() }
    }

    /// It will not be fulfilled.
    pub(crate) fn refused(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// It is not fulfilled at present.
    pub(crate) fn unavailable(error: String) -> Self {
        Self { error: Some(error), retry: true, pool: None }
    }
}

/// Listens on a socket, which replaces one of an earlier process. Only root can connect.
///
/// # Errors
/// The error of the system call.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Passes requests on, for ever.
pub(crate) async fn serve(listener: UnixListener, requests: mpsc::Sender<Received>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let requests = requests.clone();
                tokio::spawn(async move {
                    if let Err(error) = answer(stream, requests).await {
                        tracing::debug!("a plugin's request failed: {error}");
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!("cannot accept the request of a plugin: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(stream: UnixStream, requests: mpsc::Sender<Received>) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader).take(MAX_REQUEST);
    let mut line = String::new();
    timeout(IO_TIMEOUT, reader.read_line(&mut line)).await??;
    let (sender, receiver) = oneshot::channel();
    let reply = match serde_json::from_str(&line) {
        Ok(request) => {
            let received = match request {
                AnyRequest::Reserve(request) => Received::Reserve(Waiting::new(request, sender)),
                AnyRequest::Pod(request) => Received::Pod(Waiting::new(request, sender)),
                AnyRequest::Block(request) => Received::Block(Waiting::new(request, sender)),
            };
            let _ = requests.send(received).await;
            tokio::select! {
                reply = timeout(ANSWER_TIMEOUT, receiver) => match reply {
                    Ok(Ok(reply)) => reply,
                    _ => AgentAnswer::unavailable("the agent could not fulfil the request in time".to_owned()),
                },
                // The plugin has gone. What it sends besides its line is ignored.
                _ = reader.read_u8() => return Ok(()),
            }
        }
        Err(error) => AgentAnswer::refused(format!("invalid request: {error}")),
    };
    let mut text = serde_json::to_string(&reply)?;
    text.push('\n');
    timeout(IO_TIMEOUT, writer.write_all(text.as_bytes())).await?
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn requests_are_told_apart_by_their_keys() {
        let of = |request: Value| serde_json::from_value::<AnyRequest>(request);
        let reserved = json!([{"pool": "a", "address": "10.0.0.5"}]);
        let reserve =
            of(json!({"pod": "u", "interface": "net1", "reserve": reserved, "before": []})).unwrap();
        assert!(
            matches!(reserve, AnyRequest::Reserve(request) if request.reserve.len() == 1 && request.interface == "net1")
        );
        assert!(matches!(of(json!({"pod": "u"})).unwrap(), AnyRequest::Pod(request) if request.pod == "u"));
        let block = of(json!({"pools": ["a", "b"], "address": "fd00::1"})).unwrap();
        assert!(
            matches!(block, AnyRequest::Block(request) if request.pools == ["a", "b"] && request.address.is_some())
        );
        let block = of(json!({"pools": ["a"]})).unwrap();
        assert!(matches!(block, AnyRequest::Block(BlockRequest { address: None, .. })));
        for wrong in [json!({}), json!({"pools": "a"}), json!({"pools": ["a"], "address": "x"})] {
            assert!(of(wrong).is_err());
        }
    }

    #[test]
    fn an_answer_has_the_keys_that_plugins_read() {
        for (answer, expected) in [
            (AgentAnswer::default(), json!({})),
            (AgentAnswer::of_pool("a"), json!({"pool": "a"})),
            (AgentAnswer::refused("e".to_owned()), json!({"error": "e"})),
            (AgentAnswer::unavailable("e".to_owned()), json!({"error": "e", "retry": true})),
        ] {
            assert_eq!(serde_json::to_value(answer).unwrap(), expected);
        }
    }
}
