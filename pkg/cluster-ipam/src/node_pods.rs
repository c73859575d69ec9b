//! The pods of the node: keeps their directory up to date, and answers plugins that wait for a pod.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, ResourceExt, api::DynamicObject, core::PartialObjectMeta};
use kubeapi::ObjectStore;
use tokio::sync::watch;

use crate::{
    cluster_objects,
    ip_reservation::{IpReservationObject, StableName},
    pod_directory::PodDirectory,
    pod_reservations::{self, PodReservations},
    pod_watch::{self, KnownPods},
    pool_selectors::PoolSelectors,
    socket::{AgentAnswer, FAILURE_DELAY, PodRequest, ReserveRequest, Waiting},
};

/// The pods of the node.
pub(crate) struct NodePods {
    known: watch::Receiver<KnownPods>,
    namespaces: ObjectStore<PartialObjectMeta<Namespace>>,
    reservations: ObjectStore<IpReservationObject>,
    object_changes: Pin<Box<dyn Stream<Item = ()> + Send>>,
    client: Client,
    directory: PodDirectory,
    has_changed: bool,
    waiting: Vec<Waiting<PodRequest>>,
}

impl NodePods {
    /// Starts to watch the pods of a node with the credentials of its kubelet, and namespaces with those of the agent.
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
        let (reservations, reservation_changes) = cluster_objects::reservations(client);
        Ok(Self {
            known: pod_watch::start(kubeconfig, node_name),
            namespaces,
            reservations,
            object_changes: Box::pin(stream::select(namespace_changes, reservation_changes)),
            client: client.clone(),
            directory,
            has_changed: true,
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
            Some(()) = self.object_changes.next() => {}
        }
        self.has_changed = true;
    }

    /// The pools have changed.
    pub(crate) fn set_changed(&mut self) {
        self.has_changed = true;
    }

    /// Adds a request of a plugin.
    pub(crate) fn add(&mut self, waiting: Waiting<PodRequest>) {
        self.waiting.push(waiting);
    }

    /// Reserves addresses for a pod, and answers the plugin when that is done.
    pub(crate) fn reserve(&self, waiting: Waiting<ReserveRequest>) {
        let known = self.known.borrow();
        let pod = known.pods.as_ref().and_then(|pods| pods.get(&waiting.request.pod));
        let Some(stable) = pod.and_then(|pod| StableName::of(pod)) else {
            let problem =
                format!("the pod with the UID {} is not known, or has no stable name", waiting.request.pod);
            return waiting.answer(AgentAnswer::unavailable(problem));
        };
        let client = self.client.clone();
        tokio::spawn(async move {
            let (request, answer) = waiting.split();
            answer(pod_reservations::reserve(client, stable, request).await);
        });
    }

    /// Returns the addresses that are reserved for pods; `None` until they were listed once.
    pub(crate) fn reserved(&self) -> Option<Vec<IpAddr>> {
        Some(PodReservations::of_objects(&self.reservations.objects()?).addresses().collect())
    }

    /// Does what is due, given the pools of the cluster.
    pub(crate) fn step(&mut self, pools: Option<&[Arc<DynamicObject>]>) {
        if self.has_changed
            && let Some(pools) = pools
        {
            match self.write(pools) {
                Ok(is_written) => self.has_changed = !is_written,
                Err(error) => tracing::error!("{error}"),
            }
        }
        for waiting in std::mem::take(&mut self.waiting) {
            match self.answer_to(&waiting) {
                Some(answer) => waiting.answer(answer),
                None => self.waiting.push(waiting),
            }
        }
    }

    /// Writes the files of the pods; returns `false` if pods or namespaces are not known yet.
    fn write(&mut self, pools: &[Arc<DynamicObject>]) -> Result<bool, statefile::Error> {
        let known = self.known.borrow();
        let (Some(pods), Some(namespaces), Some(reservations)) =
            (&known.pods, self.namespaces.objects(), self.reservations.objects())
        else {
            return Ok(false);
        };
        let by_name: BTreeMap<_, _> =
            namespaces.iter().map(|namespace| (namespace.name_any(), namespace.as_ref())).collect();
        let selectors = PoolSelectors::of(pools.iter().map(AsRef::as_ref));
        let reservations = PodReservations::of_objects(&reservations);
        self.directory.write(pods.values().map(AsRef::as_ref), &by_name, &selectors, &reservations)?;
        Ok(true)
    }

    fn answer_to(&self, waiting: &Waiting<PodRequest>) -> Option<AgentAnswer> {
        let uid = &waiting.request.pod;
        if waiting.is_closed() || self.directory.has(uid) {
            return Some(AgentAnswer::default());
        }
        (waiting.since.elapsed() >= FAILURE_DELAY).then(|| AgentAnswer::unavailable(self.problem(uid)))
    }

    fn problem(&self, uid: &str) -> String {
        let known = self.known.borrow();
        match &known.problem {
            Some(problem) => format!("the pods of this node cannot be read: {problem}"),
            None if self.namespaces.objects().is_none() => {
                "the namespaces of the cluster cannot be read; does the agent have the role of conf/silkraild-ipam-pods?".to_owned()
            }
            None if self.reservations.objects().is_none() => {
                "the IPReservations of the cluster cannot be read; is conf/silkraild-ipam-pods applied?".to_owned()
            }
            None if self.has_changed => "the pools of the cluster are not known yet".to_owned(),
            None => format!("the API server has no pod with the UID {uid} on this node"),
        }
    }
}
