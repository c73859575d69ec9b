//! The known pods and their owners.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Instant,
};

use exporter::{CollectError, Collector, PodInfo, Workload};

use crate::{
    api_error::ApiError,
    backoff::Backoff,
    owner_lookup::OwnerLookup,
    owner_ref::{NamespacedOwnerRef, OwnerRef},
    retry_policy::RetryPolicy,
};

/// Maximum length of an owner chain. The pod of a RayJob is three steps below it.
const MAX_OWNER_DEPTH: usize = 8;
/// Maximum number of deleted pods that are kept, because metrics show pods for a while after their deletion.
const MAX_GONE_PODS: usize = 256;

/// The known pods and their owners. The cache sends no requests.
#[derive(Debug)]
pub(crate) struct OwnerCache {
    retry_policy: RetryPolicy,
    pods: HashMap<String, CachedPod>,
    /// The UIDs of deleted pods, the oldest first.
    gone: VecDeque<String>,
    objects: HashMap<NamespacedOwnerRef, CachedOwner>,
}

/// A pod as returned by the API server.
#[derive(Debug)]
pub(crate) struct WatchedPod {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) owner: Option<OwnerRef>,
}

#[derive(Debug)]
struct CachedPod {
    namespace: String,
    name: String,
    owner: Option<NamespacedOwnerRef>,
    /// The last known owner of the chain. It is kept while a changed chain is resolved.
    top: Option<Arc<Workload>>,
    is_gone: bool,
}

/// An owner of a pod, direct or indirect.
#[derive(Debug)]
struct CachedOwner {
    workload: Arc<Workload>,
    backoff: Backoff,
    is_requested: bool,
    state: OwnerState,
}

#[derive(Debug)]
enum OwnerState {
    /// Not requested yet.
    Untried,
    /// Read, with its own owner reference. It is not read again, because owners do not change.
    Read(Option<NamespacedOwnerRef>),
    /// The request failed, and is repeated at this time.
    Failed(ApiError, Instant),
}

impl OwnerCache {
    /// Returns an empty cache.
    pub(crate) fn new(retry_policy: RetryPolicy) -> Self {
        Self { retry_policy, pods: HashMap::new(), gone: VecDeque::new(), objects: HashMap::new() }
    }

    /// Replaces the list of existing pods; others are marked as deleted.
    pub(crate) fn replace(&mut self, pods: Vec<WatchedPod>) {
        let living: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        let gone: Vec<String> =
            self.pods.keys().filter(|uid| !living.contains(uid.as_str())).cloned().collect();
        gone.iter().for_each(|uid| self.mark_gone(uid));
        pods.into_iter().for_each(|pod| self.insert_pod(pod));
        self.update_top_owners();
    }

    /// Adds or updates a pod.
    pub(crate) fn put(&mut self, pod: WatchedPod) {
        self.insert_pod(pod);
        self.update_top_owners();
    }

    /// Marks a pod as deleted.
    pub(crate) fn remove(&mut self, uid: &str) {
        self.mark_gone(uid);
        self.update_top_owners();
    }

    /// Returns the next owner to request, and marks it as requested.
    pub(crate) fn next(&mut self, now: Instant) -> Option<NamespacedOwnerRef> {
        let is_due = |object: &CachedOwner| match object.state {
            _ if object.is_requested => false,
            OwnerState::Untried => true,
            OwnerState::Read(_) => false,
            OwnerState::Failed(_, due) => due <= now,
        };
        let (owner_ref, object) = self.objects.iter_mut().find(|(_, object)| is_due(object))?;
        object.is_requested = true;
        Some(owner_ref.clone())
    }

    /// Returns the time of the next retry.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        let waiting = self.objects.values().filter(|object| !object.is_requested);
        waiting
            .filter_map(|object| if let OwnerState::Failed(_, due) = object.state { Some(due) } else { None })
            .min()
    }

    /// Records the result of a request.
    pub(crate) fn record(&mut self, owner_ref: &NamespacedOwnerRef, lookup: OwnerLookup, now: Instant) {
        let Some(object) = self.objects.get_mut(owner_ref) else { return }; // no pod needs it any more
        object.is_requested = false;
        if lookup.is_namespaced == Some(false) {
            object.workload = Arc::new(Workload { namespace: String::new(), ..(*object.workload).clone() });
        }
        object.state = match lookup.above {
            Ok(above) => {
                let namespace = object.workload.namespace.clone();
                OwnerState::Read(above.map(|reference| NamespacedOwnerRef { namespace, reference }))
            }
            Err(failure) => {
                let RetryPolicy { max_refusal_delay, max_delay, .. } = self.retry_policy;
                let longest = if failure.is_definite() { max_refusal_delay } else { max_delay };
                OwnerState::Failed(failure, now + object.backoff.next(longest))
            }
        };
        self.update_top_owners();
    }

    /// Returns the workload of a pod. A pod without a UID is looked up by namespace and name.
    pub(crate) fn owner(&self, pod: &PodInfo) -> Option<Arc<Workload>> {
        let has_name =
            |known: &&CachedPod| !known.is_gone && known.name == pod.name && known.namespace == pod.namespace;
        let known = match &pod.uid {
            Some(uid) => self.pods.get(uid),
            None => self.pods.values().find(has_name),
        };
        known.and_then(|known| known.top.clone())
    }

    /// Returns one error for each kind of owner and reason.
    pub(crate) fn errors(&self) -> Vec<CollectError> {
        let mut all = BTreeMap::new();
        for object in self.objects.values() {
            let OwnerState::Failed(failure, _) = &object.state else { continue };
            let Some(reason) = failure.reason(true) else { continue };
            let (version, kind) = (&object.workload.api_version, &object.workload.kind);
            all.entry((kind, version, reason))
                .or_insert_with(|| format!("owner of kind {kind} {version}: {failure}"));
        }
        let error = |((_, _, reason), what)| CollectError { collector: Collector::Owners, reason, what };
        all.into_iter().map(error).collect()
    }

    fn insert_pod(&mut self, pod: WatchedPod) {
        let WatchedPod { uid, namespace, name, owner } = pod;
        let owner = owner.map(|reference| NamespacedOwnerRef { namespace: namespace.clone(), reference });
        let former = self.pods.remove(&uid);
        if former.as_ref().is_some_and(|former| former.is_gone) {
            self.gone.retain(|gone| *gone != uid);
        }
        let top = former.and_then(|former| former.top);
        self.pods.insert(uid, CachedPod { namespace, name, owner, top, is_gone: false });
    }

    fn mark_gone(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| !pod.is_gone) else { return };
        pod.is_gone = true;
        self.gone.push_back(uid.to_owned());
        if self.gone.len() > MAX_GONE_PODS
            && let Some(oldest) = self.gone.pop_front()
        {
            self.pods.remove(&oldest);
        }
    }

    /// Follows the chain of each pod as far as it is known, and drops owners that are in no chain.
    fn update_top_owners(&mut self) {
        let mut needed = HashSet::new();
        for pod in self.pods.values_mut().filter(|pod| !pod.is_gone) {
            let path = owner_path(&mut self.objects, self.retry_policy, pod.owner.as_ref(), &mut needed);
            if let OwnerPath::Tried(top) = path {
                pod.top = top;
            }
        }
        self.objects.retain(|owner_ref, _| needed.contains(owner_ref));
    }
}

/// The state of an owner chain.
enum OwnerPath {
    /// Each step was tried. The last known owner, if any.
    Tried(Option<Arc<Workload>>),
    /// A step was not tried yet.
    Open,
}

/// Follows a chain as far as it is known. Adds the next owner to request to `objects`, and all owners of the chain to `needed`.
fn owner_path(
    objects: &mut HashMap<NamespacedOwnerRef, CachedOwner>,
    retry_policy: RetryPolicy,
    from: Option<&NamespacedOwnerRef>,
    needed: &mut HashSet<NamespacedOwnerRef>,
) -> OwnerPath {
    let mut passed: Vec<NamespacedOwnerRef> = Vec::new();
    let (mut last, mut next) = (None, from.cloned());
    while let Some(owner_ref) =
        next.filter(|owner_ref| passed.len() < MAX_OWNER_DEPTH && !passed.contains(owner_ref))
    {
        let object =
            objects.entry(owner_ref.clone()).or_insert_with(|| CachedOwner::of(&owner_ref, retry_policy));
        needed.insert(owner_ref.clone());
        next = match &object.state {
            OwnerState::Untried => return OwnerPath::Open,
            OwnerState::Read(above) => above.clone(),
            OwnerState::Failed(..) => None,
        };
        last = Some(object.workload.clone());
        passed.push(owner_ref);
    }
    OwnerPath::Tried(last)
}

impl CachedOwner {
    fn of(owner_ref: &NamespacedOwnerRef, retry_policy: RetryPolicy) -> Self {
        let NamespacedOwnerRef { namespace, reference } = owner_ref;
        // A node owns its static pods and has no owner, so permission to read nodes is not needed.
        let is_node = reference.api_version == "v1" && reference.kind == "Node";
        let workload = Workload {
            api_version: reference.api_version.clone(),
            kind: reference.kind.clone(),
            namespace: if is_node { String::new() } else { namespace.clone() },
            name: reference.name.clone(),
        };
        let state = if is_node { OwnerState::Read(None) } else { OwnerState::Untried };
        let backoff = Backoff::starting_with(retry_policy.initial_delay);
        Self { workload: Arc::new(workload), backoff, is_requested: false, state }
    }
}

#[cfg(test)]
mod tests;
