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
/// Time after which pools are written although the files of pods are not up to date.
const OUTDATED_TIMEOUT: Duration = Duration::from_secs(5);
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
    object_changes: Pin<Box<dyn Stream<Item = ChangedObject> + Send>>,
    /// Whether they have changed since they were read.
    have_reservations_changed: bool,
    /// As last read, with all their addresses; `None` until they were listed once.
    reservations: Option<(PodReservations, Arc<BTreeSet<IpAddr>>)>,
    directory: PodDirectory,
    has_changed: bool,
    /// Since when the directory is not up to date.
    outdated_since: Instant,
    written_at: Option<Instant>,
    /// Why the directory could not be written.
    problem: Option<String>,
    waiting: Vec<Waiting<PodRequest>>,
    waiting_for_reservation: Vec<Waiting<ReserveRequest>>,
}

/// The kind of an object that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangedObject {
    Namespace,
    Reservation,
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
            object_changes: Box::pin(stream::select(
                namespace_changes.map(|()| ChangedObject::Namespace),
                reservation_changes.map(|()| ChangedObject::Reservation),
            )),
            have_reservations_changed: true,
            reservations: None,
            directory,
            has_changed: true,
            outdated_since: Instant::now(),
            written_at: None,
            problem: None,
            waiting: Vec::new(),
            waiting_for_reservation: Vec::new(),
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
            Some(change) = self.object_changes.next() => {
                self.have_reservations_changed |= change == ChangedObject::Reservation;
                // A list has many.
                while let Some(Some(change)) = self.object_changes.next().now_or_never() {
                    self.have_reservations_changed |= change == ChangedObject::Reservation;
                }
            }
        }
        self.set_outdated();
    }

    /// The pools have changed.
    pub(crate) fn set_changed(&mut self) {
        self.set_outdated();
        self.written_at = None;
    }

    fn set_outdated(&mut self) {
        if !self.has_changed {
            self.has_changed = true;
            self.outdated_since = Instant::now();
        }
    }

    /// Adds a request of a plugin.
    pub(crate) fn add(&mut self, waiting: Waiting<PodRequest>) {
        self.waiting.push(waiting);
    }

    /// Adds a request of a plugin for a reservation.
    pub(crate) fn add_for_reservation(&mut self, waiting: Waiting<ReserveRequest>) {
        self.waiting_for_reservation.push(waiting);
    }

    /// Returns the addresses that are reserved for pods; `None` until they were listed once.
    pub(crate) fn reserved(&mut self) -> Option<Arc<BTreeSet<IpAddr>>> {
        if self.have_reservations_changed {
            // A change after this is one of the next step.
            self.have_reservations_changed = false;
            let reservations = PodReservations::of_objects(self.reservation_objects.objects()?);
            let addresses = Arc::new(reservations.addresses());
            self.reservations = Some((reservations, addresses));
        }
        self.reservations.as_ref().map(|(_, addresses)| addresses.clone())
    }

    /// Does what is due, given the pools of the cluster.
    pub(crate) fn step(&mut self, pools: Option<&Arc<PoolFiles>>) {
        if pools.is_none() {
            self.outdated_since = Instant::now();
        }
        if self.is_due()
            && let Some(pools) = pools
        {
            self.reserved();
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
        for waiting in std::mem::take(&mut self.waiting_for_reservation) {
            self.reserve(waiting, pools);
        }
        self.refresh_if_waiting();
    }

    /// Reserves addresses for a pod, and answers the plugin when that is done.
    fn reserve(&mut self, waiting: Waiting<ReserveRequest>, pools: Option<&Arc<PoolFiles>>) {
        let stable = {
            let known = self.known.borrow();
            let pod = known.pods.as_ref().and_then(|pods| pods.get(&waiting.request.pod));
            pod.and_then(|pod| StableName::of(pod))
        };
        match (stable, pools) {
            _ if waiting.is_closed() => {}
            (Some(stable), Some(pools)) => {
                let (client, pools) = (self.client.clone(), pools.clone());
                tokio::spawn(async move {
                    let (request, answer) = waiting.split();
                    answer(pod_reservations::reserve(client, stable, request, pools).await);
                });
            }
            _ if waiting.since.elapsed() < FAILURE_DELAY => self.waiting_for_reservation.push(waiting),
            _ => {
                let unknown = || "the pod is not known on this node, or has no stable name".to_owned();
                waiting.answer(AgentAnswer::unavailable(self.problem().unwrap_or_else(unknown)));
            }
        }
    }

    /// Whether pools can be written for plugins: the files of all pods are up to date, or have not been for some time. Then known
    /// pods use the new pools by what was known before, and others wait.
    pub(crate) fn allows_pools(&self) -> bool {
        !self.has_changed || self.outdated_since.elapsed() >= OUTDATED_TIMEOUT
    }

    fn is_due(&self) -> bool {
        let is_late = self.written_at.is_none_or(|at| at.elapsed() >= WRITE_INTERVAL);
        self.has_changed && (is_late || !self.waiting.is_empty())
    }

    /// Writes the files of the pods; returns `false` if the objects are not known yet.
    fn write(&mut self, pools: &PoolFiles) -> Result<bool, statefile::Error> {
        let known = self.known.borrow_and_update();
        let (Some(pods), Some(namespaces), Some((reservations, _))) =
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
