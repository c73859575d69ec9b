//! The pods of the node: keeps their directory up to date, and answers plugins that wait for a pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, ResourceExt, core::PartialObjectMeta};
use kubeapi::ObjectStore;
use tokio::sync::{Notify, watch};

use crate::{
    cluster_objects,
    ip_reservation::{IpReservationObject, StableName},
    pod_directory::PodDirectory,
    pod_reservations::{self, PodReservations},
    pod_watch::{self, KnownPods},
    pool_directory::PoolFiles,
    socket::{AgentAnswer, FAILURE_DELAY, PodRequest, ReserveRequest, Waiting},
};

/// Time between two updates of the directory, if no plugin waits.
const WRITE_INTERVAL: Duration = Duration::from_millis(200);
/// A plugin that has waited for this time makes the pods be listed again.
const REFRESH_AFTER: Duration = Duration::from_secs(2);
/// Time between two lists that are made for this.
const REFRESH_INTERVAL: Duration = Duration::from_secs(8);

/// The pods of the node.
pub(crate) struct NodePods {
    client: Client,
    known: watch::Receiver<KnownPods>,
    refresh: Arc<Notify>,
    refreshed_at: Option<Instant>,
    namespaces: ObjectStore<PartialObjectMeta<Namespace>>,
    reservation_objects: ObjectStore<IpReservationObject>,
    object_changes: Pin<Box<dyn Stream<Item = ()> + Send>>,
    /// Those of the last update; `None` until they were listed once.
    reservations: Option<PodReservations>,
    directory: PodDirectory,
    has_changed: bool,
    written_at: Option<Instant>,
    /// Why the directory could not be written.
    problem: Option<String>,
    waiting: Vec<Waiting<PodRequest>>,
}

impl NodePods {
    /// Starts to watch the pods of a node with the credentials of its kubelet, and other objects with those of the agent.
    ///
    /// # Errors
    /// If the directory of the pods cannot be created.
    pub(crate) fn watch(
        client: &Client,
        kubeconfig: PathBuf,
        node_name: String,
        directory: PathBuf,
    ) -> Result<Self, statefile::Error> {
        let directory = PodDirectory::create(directory)?;
        let (namespaces, namespace_changes) = cluster_objects::namespaces(client);
        let (reservation_objects, reservation_changes) = cluster_objects::reservations(client);
        let refresh = Arc::<Notify>::default();
        Ok(Self {
            client: client.clone(),
            known: pod_watch::start(kubeconfig, node_name, refresh.clone()),
            refresh,
            refreshed_at: None,
            namespaces,
            reservation_objects,
            object_changes: Box::pin(stream::select(namespace_changes, reservation_changes)),
            reservations: None,
            directory,
            has_changed: true,
            written_at: None,
            problem: None,
            waiting: Vec::new(),
        })
    }

    /// Makes plugins ignore annotations.
    ///
    /// # Errors
    /// If the directory of the pods cannot be removed.
    pub(crate) fn ignore(directory: &Path) -> Result<(), statefile::Error> {
        PodDirectory::remove(directory.to_owned())
    }

    /// Returns when pods, namespaces or reservations have changed.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            Ok(()) = self.known.changed() => {}
            Some(()) = self.object_changes.next() => {
                // A list has many.
                while let Some(Some(())) = self.object_changes.next().now_or_never() {}
            }
        }
        self.has_changed = true;
    }

    /// The pools have changed.
    pub(crate) fn set_changed(&mut self) {
        self.has_changed = true;
        self.written_at = None;
    }

    /// Adds a request of a plugin.
    pub(crate) fn add(&mut self, waiting: Waiting<PodRequest>) {
        self.waiting.push(waiting);
    }

    /// Reserves addresses for a pod, and answers the plugin when that is done.
    pub(crate) fn reserve(&self, waiting: Waiting<ReserveRequest>, pools: &Arc<PoolFiles>) {
        let known = self.known.borrow();
        let pod = known.pods.as_ref().and_then(|pods| pods.get(&waiting.request.pod));
        let Some(stable) = pod.and_then(|pod| StableName::of(pod)) else {
            let problem =
                format!("the pod with the UID {} is not known, or has no stable name", waiting.request.pod);
            return waiting.answer(AgentAnswer::unavailable(problem));
        };
        let (client, pools) = (self.client.clone(), pools.clone());
        tokio::spawn(async move {
            let (request, answer) = waiting.split();
            answer(pod_reservations::reserve(client, stable, request, pools).await);
        });
    }

    /// Reads the reservations that have changed, and returns the reserved addresses; `None` if nothing has changed.
    pub(crate) fn new_reserved(&mut self) -> Option<BTreeSet<IpAddr>> {
        if !self.is_due() {
            return None;
        }
        let reservations = PodReservations::of_objects(self.reservation_objects.objects()?);
        let addresses = reservations.addresses();
        self.reservations = Some(reservations);
        Some(addresses)
    }

    /// Does what is due, given the pools of the cluster.
    pub(crate) fn step(&mut self, pools: Option<&PoolFiles>) {
        if self.is_due()
            && let Some(pools) = pools
        {
            self.written_at = Some(Instant::now());
            match self.write(pools) {
                Ok(is_written) => {
                    self.has_changed = !is_written;
                    self.problem = None;
                }
                Err(error) => {
                    tracing::error!("{error}");
                    self.problem = Some(error.to_string());
                }
            }
        }
        for waiting in std::mem::take(&mut self.waiting) {
            match self.answer_to(&waiting) {
                Some(answer) => waiting.answer(answer),
                None => self.waiting.push(waiting),
            }
        }
        self.refresh_if_waiting();
    }

    /// Whether all files are those of the current pods and of the pools of the last step.
    pub(crate) fn is_current(&self) -> bool {
        !self.has_changed
    }

    fn is_due(&self) -> bool {
        let is_late = self.written_at.is_none_or(|at| at.elapsed() >= WRITE_INTERVAL);
        self.has_changed && (is_late || !self.waiting.is_empty())
    }

    /// Writes the files of the pods; returns `false` if the objects are not known yet.
    fn write(&mut self, pools: &PoolFiles) -> Result<bool, statefile::Error> {
        let known = self.known.borrow_and_update();
        let (Some(pods), Some(namespaces), Some(reservations)) =
            (&known.pods, self.namespaces.objects(), &self.reservations)
        else {
            return Ok(false);
        };
        let by_name: BTreeMap<_, _> =
            namespaces.iter().map(|namespace| (namespace.name_any(), namespace.as_ref())).collect();
        self.directory.write(pods.values().map(AsRef::as_ref), &by_name, pools, reservations)?;
        Ok(true)
    }

    fn answer_to(&self, waiting: &Waiting<PodRequest>) -> Option<AgentAnswer> {
        let uid = &waiting.request.pod;
        if waiting.is_closed() || self.directory.has(uid) {
            return Some(AgentAnswer::default());
        }
        (waiting.since.elapsed() >= FAILURE_DELAY).then(|| {
            let unknown =
                || format!("the API server has no pod with the UID {uid} on this node, or not its namespace");
            AgentAnswer::unavailable(self.problem().unwrap_or_else(unknown))
        })
    }

    fn refresh_if_waiting(&mut self) {
        let is_recent = self.refreshed_at.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL);
        if !is_recent && self.waiting.iter().any(|waiting| waiting.since.elapsed() >= REFRESH_AFTER) {
            self.refreshed_at = Some(Instant::now());
            self.refresh.notify_one();
        }
    }

    /// Returns why the directory is not up to date.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Some(problem) = &self.known.borrow().problem {
            return Some(format!("the pods of this node cannot be read: {problem}"));
        }
        let missing = if self.namespaces.objects().is_none() {
            "namespaces"
        } else if self.reservation_objects.objects().is_none() {
            "IPReservations"
        } else {
            return self.problem.clone();
        };
        Some(format!("the {missing} of the cluster cannot be read; is conf/silkraild-ipam-pods applied?"))
    }
}
