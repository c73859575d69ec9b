//! What is known of pods and of those who own them.

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
    workload_watcher::RetryPolicy,
};

/// How far up an owner is looked for. A RayJob's pod is three steps below it.
const MAX_OWNER_DEPTH: usize = 8;
/// How many pods are remembered that are gone: the node shows what they had for a while.
const MAX_GONE_PODS: usize = 256;

/// What is known of pods and of those who own them. It asks nobody.
#[derive(Debug)]
pub(crate) struct OwnerCache {
    patience: RetryPolicy,
    pods: HashMap<String, CachedPod>,
    /// Those of the pods that are gone, the oldest first.
    gone: VecDeque<String>,
    objects: HashMap<NamespacedOwnerRef, CachedOwner>,
}

/// A pod as the API server told of it.
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
    /// What is at the top, as far as the way up could be gone. It stays while another way is being gone.
    top: Option<Arc<Workload>>,
    is_gone: bool,
}

/// An owner, or an owner's owner.
#[derive(Debug)]
struct CachedOwner {
    told: Arc<Workload>,
    pause: Backoff,
    is_asked: bool,
    state: OwnerState,
}

#[derive(Debug)]
enum OwnerState {
    /// Nobody has been asked.
    Untried,
    /// Read: what it says of its own owner. It is not read again, for an owner does not change.
    Read(Option<NamespacedOwnerRef>),
    /// It could not be read. It is asked again then.
    Failed(ApiError, Instant),
}

impl OwnerCache {
    /// Nothing is known yet.
    pub(crate) fn new(patience: RetryPolicy) -> Self {
        Self { patience, pods: HashMap::new(), gone: VecDeque::new(), objects: HashMap::new() }
    }

    /// The pods there are; others are gone.
    pub(crate) fn replace(&mut self, pods: Vec<WatchedPod>) {
        let living: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        let gone: Vec<String> =
            self.pods.keys().filter(|uid| !living.contains(uid.as_str())).cloned().collect();
        gone.iter().for_each(|uid| self.mark_gone(uid));
        pods.into_iter().for_each(|pod| self.insert_pod(pod));
        self.update_top_owners();
    }

    /// A pod came, or is another than before.
    pub(crate) fn put(&mut self, pod: WatchedPod) {
        self.insert_pod(pod);
        self.update_top_owners();
    }

    /// A pod went.
    pub(crate) fn remove(&mut self, uid: &str) {
        self.mark_gone(uid);
        self.update_top_owners();
    }

    /// The next owner to ask for. It is under way from now on.
    pub(crate) fn next(&mut self, now: Instant) -> Option<NamespacedOwnerRef> {
        let is_due = |object: &CachedOwner| match object.state {
            _ if object.is_asked => false,
            OwnerState::Untried => true,
            OwnerState::Read(_) => false,
            OwnerState::Failed(_, due) => due <= now,
        };
        let (claim, object) = self.objects.iter_mut().find(|(_, object)| is_due(object))?;
        object.is_asked = true;
        Some(claim.clone())
    }

    /// When the next one is to be asked for again.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        let waiting = self.objects.values().filter(|object| !object.is_asked);
        waiting
            .filter_map(|object| if let OwnerState::Failed(_, due) = object.state { Some(due) } else { None })
            .min()
    }

    /// Takes down what was answered.
    pub(crate) fn answer(&mut self, claim: &NamespacedOwnerRef, answer: OwnerLookup, now: Instant) {
        let Some(object) = self.objects.get_mut(claim) else { return }; // nobody needs it any more
        object.is_asked = false;
        if answer.is_namespaced == Some(false) {
            object.told = Arc::new(Workload { namespace: String::new(), ..(*object.told).clone() });
        }
        object.state = match answer.above {
            Ok(above) => {
                let namespace = object.told.namespace.clone();
                OwnerState::Read(above.map(|reference| NamespacedOwnerRef { namespace, reference }))
            }
            Err(failure) => {
                let RetryPolicy { longest_refusal, longest_pause, .. } = self.patience;
                let longest = if failure.is_definite() { longest_refusal } else { longest_pause };
                OwnerState::Failed(failure, now + object.pause.next(longest))
            }
        };
        self.update_top_owners();
    }

    /// The workload that a pod belongs to. One whose UID nobody knows is looked up by its name.
    pub(crate) fn owner(&self, pod: &PodInfo) -> Option<Arc<Workload>> {
        let has_name =
            |known: &&CachedPod| !known.is_gone && known.name == pod.name && known.namespace == pod.namespace;
        let known = match &pod.uid {
            Some(uid) => self.pods.get(uid),
            None => self.pods.values().find(has_name),
        };
        known.and_then(|known| known.top.clone())
    }

    /// What could not be read, each kind of owner once for each reason.
    pub(crate) fn troubles(&self) -> Vec<CollectError> {
        let mut all = BTreeMap::new();
        for object in self.objects.values() {
            let OwnerState::Failed(failure, _) = &object.state else { continue };
            let Some(reason) = failure.reason(true) else { continue };
            let (version, kind) = (&object.told.api_version, &object.told.kind);
            all.entry((kind, version, reason))
                .or_insert_with(|| format!("owner of kind {kind} {version}: {failure}"));
        }
        let trouble = |((_, _, reason), what)| CollectError { collector: Collector::Owners, reason, what };
        all.into_iter().map(trouble).collect()
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

    /// Goes up from each pod as far as is known, and forgets the owners that nobody leads to.
    fn update_top_owners(&mut self) {
        let mut needed = HashSet::new();
        for pod in self.pods.values_mut().filter(|pod| !pod.is_gone) {
            let way = owner_path(&mut self.objects, self.patience, pod.owner.as_ref(), &mut needed);
            if let OwnerPath::Tried(top) = way {
                pod.top = top;
            }
        }
        self.objects.retain(|claim, _| needed.contains(claim));
    }
}

/// The way from a pod to the top.
enum OwnerPath {
    /// Each step was tried. The last one that is known, if any.
    Tried(Option<Arc<Workload>>),
    /// A step is still to be tried.
    Open,
}

/// Goes up as far as is known. What is to be asked for next becomes an object; each that is passed is needed.
fn owner_path(
    objects: &mut HashMap<NamespacedOwnerRef, CachedOwner>,
    patience: RetryPolicy,
    from: Option<&NamespacedOwnerRef>,
    needed: &mut HashSet<NamespacedOwnerRef>,
) -> OwnerPath {
    let mut passed: Vec<NamespacedOwnerRef> = Vec::new();
    let (mut last, mut next) = (None, from.cloned());
    while let Some(claim) = next.filter(|claim| passed.len() < MAX_OWNER_DEPTH && !passed.contains(claim)) {
        let object = objects.entry(claim.clone()).or_insert_with(|| CachedOwner::of(&claim, patience));
        needed.insert(claim.clone());
        next = match &object.state {
            OwnerState::Untried => return OwnerPath::Open,
            OwnerState::Read(above) => above.clone(),
            OwnerState::Failed(..) => None,
        };
        last = Some(object.told.clone());
        passed.push(claim);
    }
    OwnerPath::Tried(last)
}

impl CachedOwner {
    fn of(claim: &NamespacedOwnerRef, patience: RetryPolicy) -> Self {
        let NamespacedOwnerRef { namespace, reference } = claim;
        // A node owns its static pods, and nobody owns it. So nobody has to let us read nodes.
        let is_node = reference.api_version == "v1" && reference.kind == "Node";
        let told = Workload {
            api_version: reference.api_version.clone(),
            kind: reference.kind.clone(),
            namespace: if is_node { String::new() } else { namespace.clone() },
            name: reference.name.clone(),
        };
        let state = if is_node { OwnerState::Read(None) } else { OwnerState::Untried };
        let pause = Backoff::starting_with(patience.first_pause);
        Self { told: Arc::new(told), pause, is_asked: false, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(name: &str) -> OwnerRef {
        let (api_version, kind) = ("batch/v1".into(), "Job".into());
        OwnerRef { api_version, kind, name: name.into(), uid: name.into() }
    }

    fn pod(uid: &str, owner: Option<&str>) -> WatchedPod {
        WatchedPod { uid: uid.into(), namespace: "ml".into(), name: uid.into(), owner: owner.map(reference) }
    }

    fn known(uid: &str) -> PodInfo {
        PodInfo { namespace: "ml".into(), name: uid.into(), uid: Some(uid.into()) }
    }

    fn name(register: &OwnerCache, uid: &str) -> Option<String> {
        register.owner(&known(uid)).map(|owner| owner.name.clone())
    }

    fn read(above: Option<&str>) -> OwnerLookup {
        OwnerLookup { is_namespaced: Some(true), above: Ok(above.map(reference)) }
    }

    fn failed(failure: ApiError) -> OwnerLookup {
        OwnerLookup { is_namespaced: None, above: Err(failure) }
    }

    #[test]
    fn an_owner_is_told_once_the_way_to_the_top_was_tried() {
        let (mut register, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
        register.put(pod("p", Some("a")));
        let a = register.next(now).unwrap();
        assert_eq!(register.next(now), None, "it is under way");
        register.answer(&a, read(Some("b")), now);
        assert_eq!(name(&register, "p"), None);
        let b = register.next(now).unwrap();
        register.answer(&b, read(None), now);
        assert_eq!(name(&register, "p").as_deref(), Some("b"));
        assert_eq!(
            (register.next(now), register.next_retry()),
            (None, None),
            "what was read is not read again"
        );
    }

    #[test]
    fn a_failure_is_tried_again_later_and_what_was_told_stays() {
        let (mut register, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
        register.put(pod("p", Some("a")));
        let a = register.next(now).unwrap();
        register.answer(&a, failed(ApiError::Gone), now);
        assert_eq!(name(&register, "p").as_deref(), Some("a"));
        let due = register.next_retry().unwrap();
        assert!(due > now && register.next(now).is_none());
        assert_eq!(register.next(due), Some(a.clone()));
        register.answer(&a, read(Some("b")), due);
        assert_eq!(name(&register, "p").as_deref(), Some("a"), "until b was tried");
    }

    #[test]
    fn a_pod_that_gets_another_owner_keeps_the_former_until_the_new_one_was_tried() {
        let (mut register, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
        register.put(pod("p", Some("a")));
        let a = register.next(now).unwrap();
        register.answer(&a, read(None), now);
        register.put(pod("p", Some("b")));
        assert_eq!(name(&register, "p").as_deref(), Some("a"));
        assert_eq!(register.objects.len(), 1, "nobody leads to a any more");
        register.put(pod("p", None));
        assert_eq!(name(&register, "p"), None);
    }

    #[test]
    fn a_way_up_has_an_end() {
        let (mut register, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
        register.put(pod("p", Some("0")));
        for n in 1.. {
            let Some(claim) = register.next(now) else { break };
            register.answer(&claim, read(Some(&n.to_string())), now);
        }
        assert_eq!(name(&register, "p"), Some((MAX_OWNER_DEPTH - 1).to_string()));
        assert_eq!(register.objects.len(), MAX_OWNER_DEPTH);
    }

    #[test]
    fn pods_that_are_gone_are_remembered_but_not_for_ever() {
        let (mut register, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
        for n in 0..=MAX_GONE_PODS {
            register.put(pod(&n.to_string(), Some("a")));
        }
        let a = register.next(now).unwrap();
        register.answer(&a, read(None), now);
        register.replace(vec![pod("0", Some("a"))]);
        assert_eq!(name(&register, "1").as_deref(), Some("a"));
        register.replace(Vec::new());
        assert_eq!(register.pods.len(), MAX_GONE_PODS);
        assert!(register.objects.is_empty(), "nobody asks for those of the gone");
        register.put(pod("0", Some("a")));
        assert_eq!(register.gone.len(), MAX_GONE_PODS - 1, "it is back");
    }

    #[test]
    fn what_one_pod_claims_of_an_owner_says_nothing_of_anothers() {
        let (mut register, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
        register.put(WatchedPod { namespace: "evil".into(), ..pod("e", Some("a")) });
        register.put(pod("p", Some("a")));
        for _ in 0..2 {
            let claim = register.next(now).unwrap();
            let is_true = claim.namespace == "ml";
            let answer = if is_true { read(Some("b")) } else { failed(ApiError::Gone) };
            register.answer(&claim, answer, now);
        }
        let b = register.next(now).unwrap();
        register.answer(&b, read(None), now);
        assert_eq!(
            (name(&register, "e").as_deref(), name(&register, "p").as_deref()),
            (Some("a"), Some("b"))
        );
    }

    #[test]
    fn above_what_is_in_no_namespace_nothing_is_in_one() {
        let (mut register, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
        register.put(pod("p", Some("a")));
        let a = register.next(now).unwrap();
        assert_eq!(a.namespace, "ml");
        register.answer(&a, OwnerLookup { is_namespaced: Some(false), above: Ok(Some(reference("b"))) }, now);
        assert_eq!(register.next(now).unwrap().namespace, "");
    }

    #[test]
    fn troubles_are_told_once_for_each_kind() {
        let (mut register, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
        register.replace(vec![pod("p", Some("a")), pod("q", Some("b")), pod("r", Some("c"))]);
        for failure in [ApiError::Denied("no".into()), ApiError::Denied("no".into()), ApiError::Gone] {
            let claim = register.next(now).unwrap();
            register.answer(&claim, failed(failure), now);
        }
        let troubles = register.troubles();
        assert_eq!(troubles.len(), 1, "{troubles:?}");
        assert_eq!(troubles[0].what, "owner of kind Job batch/v1: no");
    }
}
