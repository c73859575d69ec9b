//! The agent of a node.

use std::{
    convert::Infallible,
    fmt,
    fs::{self, File, TryLockError},
    io,
    path::PathBuf,
    pin::pin,
    time::Duration,
};

use futures_util::{FutureExt, Stream, StreamExt, stream};
use ipam::{LocalStore, StoreError};
use kube::Client;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use crate::{
    KubeBlocks, cluster_objects,
    node_object::{self, NodeLabels, NodeObject},
    node_pods::NodePods,
    session::{Session, SessionOptions},
    socket::{self, AgentAnswer, Received},
};

/// The timeout of a request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the use of blocks is read.
const TICK: Duration = Duration::from_secs(1);

/// The options of the agent.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The name of the node in Kubernetes.
    pub node_name: String,
    /// The state directory of the plugins.
    pub state_dir: PathBuf,
    /// The kubeconfig file of the kubelet. With it, annotations and labels of pods select pools.
    pub kubelet_kubeconfig: Option<PathBuf>,
}

/// The agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another agent runs on the node.
    #[error("{}: another `silkraild ipam` runs on this node", .0.display())]
    AlreadyRunning(PathBuf),
    /// A file or the socket cannot be created.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// A directory cannot be created.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// The store of the plugins cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The agent of a node.
pub struct Agent {
    client: Client,
    options: AgentOptions,
    requests: mpsc::Receiver<Received>,
    /// Requests that wait for the object of the node.
    waiting: Vec<Received>,
    /// The pods of the node, if they are watched.
    pods: Option<NodePods>,
    /// Held as long as the agent runs.
    _lock: File,
}

/// The object of the node.
#[derive(Debug, Clone)]
struct KnownNode {
    uid: String,
    labels: NodeLabels,
    /// Whether it existed once, but does not exist now.
    is_missing: bool,
}

/// The object of the node, as it is saved.
#[derive(Debug, Serialize, Deserialize)]
struct SavedNode {
    name: String,
    uid: String,
    labels: NodeLabels,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Agent {
    /// Prepares the directory of the node and listens on the socket. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn start(client: Client, options: AgentOptions) -> Result<Self, AgentError> {
        let directory = options.state_dir.join("cluster");
        statefile::make_dir(&directory, 0o700)?;
        let lock = lock(directory.join("lock"))?;
        let pods = pods(&client, &options, directory.join("pods"))?;
        let path = directory.join("socket");
        let listener = socket::listen(&path).map_err(|source| AgentError::Io { path, source })?;
        let (sender, requests) = mpsc::channel(64);
        tokio::spawn(socket::serve(listener, sender));
        Ok(Self { client, options, requests, waiting: Vec::new(), pods, _lock: lock })
    }

    /// Serves the plugins of the node, for ever.
    ///
    /// # Errors
    /// [`AgentError::Store`].
    pub async fn run(mut self) -> Result<Infallible, AgentError> {
        let mut node = pin!(node_object::changes(&self.client, &self.options.node_name));
        let mut current = self.wait_for_node(&mut node).await;
        loop {
            let mut session = self.session(&current)?;
            if current.is_missing {
                session.set_node(NodeObject::Missing);
            }
            current = self.serve(session, &mut node).await;
        }
    }

    /// Passes a request on.
    fn dispatch(&mut self, received: Received, session: &mut Session) {
        match (received, &mut self.pods) {
            (Received::Block(waiting), _) => session.add(waiting),
            (Received::Pod(waiting), Some(pods)) => pods.add(waiting),
            (Received::Reserve(waiting), Some(pods)) => pods.add_for_reservation(waiting),
            // Pods are not watched any more.
            (waiting, None) => waiting.answer(AgentAnswer::default()),
        }
    }

    fn session(&self, node: &KnownNode) -> Result<Session, AgentError> {
        let KnownNode { uid, labels, .. } = node.clone();
        self.save(&uid, &labels)?;
        let boot_id = bootid::current()
            .map_err(|source| AgentError::Io { path: PathBuf::from("/").join(bootid::FILE), source })?;
        let store = LocalStore::open(&self.options.state_dir, boot_id)?;
        let options = SessionOptions {
            pools_dir: self.options.state_dir.join("cluster/pools"),
            node_name: self.options.node_name.clone(),
            uid,
            labels,
            watches_pods: self.pods.is_some(),
        };
        Ok(Session::new(KubeBlocks::new(self.client.clone(), REQUEST_TIMEOUT), store, options))
    }

    /// Waits for the object of the node. Requests of plugins wait, too, unless it is known not to exist. A node that had an object
    /// since it was booted continues without it.
    async fn wait_for_node(&mut self, node: &mut (impl Stream<Item = NodeObject> + Unpin)) -> KnownNode {
        let name = self.options.node_name.clone();
        let missing = format!("the Node {name} does not exist in the cluster; is --node-name its name?");
        let mut is_missing = false;
        loop {
            tokio::select! {
                Some(change) = node.next() => match change {
                    NodeObject::Exists { uid, labels } => return KnownNode { uid, labels, is_missing: false },
                    NodeObject::Missing => {
                        tracing::warn!("{missing}");
                        if let Some(known) = self.saved() {
                            return known;
                        }
                        is_missing = true;
                    }
                },
                Some(waiting) = self.requests.recv() => {
                    self.waiting.retain(|waiting| !waiting.is_closed());
                    self.waiting.push(waiting);
                }
            }
            if is_missing {
                let refuse = |waiting: Received| waiting.answer(AgentAnswer::unavailable(missing.clone()));
                self.waiting.drain(..).for_each(refuse);
            }
        }
    }

    /// Returns the path of the file with the last object of the node, which is gone after a reboot.
    fn node_path(&self) -> PathBuf {
        self.options.state_dir.join("cluster/node.json")
    }

    fn save(&self, uid: &str, labels: &NodeLabels) -> Result<(), AgentError> {
        let saved =
            SavedNode { name: self.options.node_name.clone(), uid: uid.to_owned(), labels: labels.clone() };
        let text = serde_json::to_string(&saved).unwrap_or_default();
        Ok(statefile::replace(&self.node_path(), 0o600, text.as_bytes())?)
    }

    /// Returns the last object of the node; `None` if there was none since the node was booted.
    fn saved(&self) -> Option<KnownNode> {
        let saved: SavedNode = serde_json::from_slice(&fs::read(self.node_path()).ok()?).ok()?;
        let is_own = saved.name == self.options.node_name && !saved.uid.is_empty();
        is_own.then_some(KnownNode { uid: saved.uid, labels: saved.labels, is_missing: true })
    }

    /// Serves until the object of the node is created again under another UID, and returns what it is then.
    async fn serve(
        &mut self,
        mut session: Session,
        node: &mut (impl Stream<Item = NodeObject> + Unpin),
    ) -> KnownNode {
        let (pools, pool_changes) = cluster_objects::pools(&self.client);
        let (reserved, reserved_changes) = cluster_objects::reserved(&self.client);
        let (owned, owned_changes) = cluster_objects::blocks_of(&self.client, session.uid());
        session.set_stores(pools, reserved, owned);
        let changes = stream::select(pool_changes, stream::select(reserved_changes, owned_changes));
        let mut changes = pin!(changes);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Those that came during the last step are handled at once.
            let has_waiting = !self.waiting.is_empty();
            tokio::select! {
                () = std::future::ready(()), if has_waiting => {}
                Some(change) = node.next() => match change {
                    NodeObject::Exists { uid, labels } if uid != session.uid() => {
                        self.waiting.extend(session.into_waiting().into_iter().map(Received::Block));
                        return KnownNode { uid, labels, is_missing: false };
                    }
                    change => {
                        if let NodeObject::Exists { uid, labels } = &change
                            && let Err(error) = self.save(uid, labels)
                        {
                            tracing::warn!("{error}");
                        }
                        session.set_node(change);
                    }
                },
                Some(()) = changes.next() => {
                    // A list has many.
                    while let Some(Some(())) = changes.next().now_or_never() {}
                    session.set_changed();
                }
                () = changed(&mut self.pods) => {}
                Some(waiting) = self.requests.recv() => {
                    self.waiting.push(waiting);
                    while let Ok(waiting) = self.requests.try_recv() {
                        self.waiting.push(waiting);
                    }
                }
                _ = ticks.tick() => {}
            }
            self.step(&mut session).await;
        }
    }

    /// Does what is due for pods and for blocks.
    async fn step(&mut self, session: &mut Session) {
        if let Some(reserved) = self.pods.as_mut().and_then(NodePods::reserved) {
            session.set_reserved(reserved);
        }
        if session.read_pools() {
            self.pods.iter_mut().for_each(NodePods::set_changed);
        }
        let pools = session.pools();
        for waiting in std::mem::take(&mut self.waiting) {
            self.dispatch(waiting, session);
        }
        // Before the pools: plugins must not read a pool without knowing whether it selects their pod.
        let mut can_write = true;
        if let Some(pods) = &mut self.pods {
            pods.step(pools.as_ref());
            can_write = pods.allows_pools();
            session.set_not_ready(pods.problem());
        }
        // Requests to the API server take their time. Pods do not wait for blocks.
        let mut step = pin!(session.step(can_write));
        loop {
            tokio::select! {
                () = &mut step => return,
                () = changed(&mut self.pods) => {}
                Some(received) = self.requests.recv() => match (received, &mut self.pods) {
                    (Received::Pod(waiting), Some(pods)) => pods.add(waiting),
                    (Received::Reserve(waiting), Some(pods)) => pods.add_for_reservation(waiting),
                    // After the step.
                    (other, _) => self.waiting.push(other),
                },
                () = tokio::time::sleep(TICK) => {}
            }
            if let Some(pods) = &mut self.pods {
                pods.step(pools.as_ref());
            }
        }
    }
}

fn pods(
    client: &Client,
    options: &AgentOptions,
    directory: PathBuf,
) -> Result<Option<NodePods>, statefile::Error> {
    match &options.kubelet_kubeconfig {
        None => NodePods::ignore(&directory).map(|()| None),
        Some(kubeconfig) => {
            NodePods::watch(client, kubeconfig.clone(), options.node_name.clone(), directory).map(Some)
        }
    }
}

/// Returns when pods have changed; never if they are not watched.
async fn changed(pods: &mut Option<NodePods>) {
    match pods {
        Some(pods) => pods.changed().await,
        None => std::future::pending().await,
    }
}

fn lock(path: PathBuf) -> Result<File, AgentError> {
    let file = match File::create(&path) {
        Ok(file) => file,
        Err(source) => return Err(AgentError::Io { path, source }),
    };
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(AgentError::AlreadyRunning(path)),
        Err(TryLockError::Error(source)) => Err(AgentError::Io { path, source }),
    }
}
