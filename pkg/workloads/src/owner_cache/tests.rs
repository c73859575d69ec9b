//! Pods and owners of a cache that sends no requests.

use std::time::Duration;

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

fn name(cache: &OwnerCache, uid: &str) -> Option<String> {
    cache.owner(&known(uid)).map(|owner| owner.name.clone())
}

fn read(above: Option<&str>) -> OwnerLookup {
    OwnerLookup { is_namespaced: Some(true), above: Ok(above.map(reference)) }
}

fn failed(failure: ApiError) -> OwnerLookup {
    OwnerLookup { is_namespaced: None, above: Err(failure) }
}

#[test]
fn an_owner_is_returned_once_the_whole_chain_was_tried() {
    let (mut cache, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
    cache.put(pod("p", Some("a")));
    let a = cache.next(now).unwrap();
    assert_eq!(cache.next(now), None, "it is requested already");
    cache.record(&a, read(Some("b")), now);
    assert_eq!(name(&cache, "p"), None);
    let b = cache.next(now).unwrap();
    cache.record(&b, read(None), now);
    assert_eq!(name(&cache, "p").as_deref(), Some("b"));
    assert_eq!((cache.next(now), cache.next_retry()), (None, None), "what was read is not read again");
}

#[test]
fn a_failure_is_retried_and_the_known_owner_is_kept() {
    let (mut cache, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
    cache.put(pod("p", Some("a")));
    let a = cache.next(now).unwrap();
    cache.record(&a, failed(ApiError::Gone), now);
    assert_eq!(name(&cache, "p").as_deref(), Some("a"));
    let due = cache.next_retry().unwrap();
    assert!(due > now && cache.next(now).is_none());
    assert_eq!(cache.next(due), Some(a.clone()));
    assert_eq!(cache.next_retry(), None, "it is requested");
    cache.record(&a, read(Some("b")), due);
    assert_eq!(name(&cache, "p").as_deref(), Some("a"), "until b was tried");
}

#[test]
fn delays_grow_and_a_definite_failure_is_retried_later_than_a_temporary_one() {
    let second = Duration::from_secs(1);
    let policy = RetryPolicy {
        initial_delay: second,
        max_delay: second * 8,
        max_refusal_delay: second * 100,
        ..RetryPolicy::default()
    };
    for (failure, longest) in [(ApiError::Refused("down".into()), 8), (ApiError::Denied("no".into()), 64)] {
        let (mut cache, mut now) = (OwnerCache::new(policy), Instant::now());
        cache.put(pod("p", Some("a")));
        // Each delay is between half and all of its nominal length.
        for nominal in [1, 2, 4, 8, 16, 32, 64].map(|nominal: u32| nominal.min(longest)) {
            let a = cache.next(now).unwrap();
            cache.record(&a, failed(failure.clone()), now);
            let due = cache.next_retry().unwrap();
            let delay = due - now;
            assert!(delay >= second * nominal / 2 && delay <= second * nominal, "{failure}: {delay:?}");
            now = due;
        }
    }
}

#[test]
fn a_pod_without_a_uid_is_found_by_its_name_in_its_namespace() {
    let (mut cache, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
    for (uid, namespace) in [("1", "ml"), ("2", "web")] {
        let owner = Some(reference(namespace));
        cache.put(WatchedPod { uid: uid.into(), namespace: namespace.into(), name: "p".into(), owner });
        let owner_ref = cache.next(now).unwrap();
        cache.record(&owner_ref, read(None), now);
    }
    for namespace in ["ml", "web"] {
        let pod = PodInfo { namespace: namespace.into(), name: "p".into(), uid: None };
        assert_eq!(cache.owner(&pod).unwrap().name, namespace);
    }
}

#[test]
fn only_a_node_of_the_core_group_is_not_requested() {
    for (api_version, is_requested) in [("v1", false), ("example.com/v1", true)] {
        let mut cache = OwnerCache::new(RetryPolicy::default());
        let node = OwnerRef { api_version: api_version.into(), kind: "Node".into(), ..reference("n") };
        cache.put(WatchedPod { owner: Some(node), ..pod("p", None) });
        assert_eq!(cache.next(Instant::now()).is_some(), is_requested, "{api_version}");
        assert_eq!(name(&cache, "p").is_some(), !is_requested);
    }
}

#[test]
fn a_pod_that_gets_another_owner_keeps_the_former_until_the_new_one_was_tried() {
    let (mut cache, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
    cache.put(pod("p", Some("a")));
    let a = cache.next(now).unwrap();
    cache.record(&a, read(None), now);
    cache.put(pod("p", Some("b")));
    assert_eq!(name(&cache, "p").as_deref(), Some("a"));
    assert_eq!(cache.objects.len(), 1, "a is in no chain any more");
    cache.put(pod("p", None));
    assert_eq!(name(&cache, "p"), None);
}

#[test]
fn the_length_of_a_chain_is_limited() {
    let (mut cache, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
    cache.put(pod("p", Some("0")));
    for n in 1.. {
        let Some(owner_ref) = cache.next(now) else { break };
        cache.record(&owner_ref, read(Some(&n.to_string())), now);
    }
    assert_eq!(name(&cache, "p"), Some((MAX_OWNER_DEPTH - 1).to_string()));
    assert_eq!(cache.objects.len(), MAX_OWNER_DEPTH);
}

#[test]
fn a_limited_number_of_deleted_pods_is_kept() {
    let (mut cache, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
    for n in 0..=MAX_GONE_PODS {
        cache.put(pod(&n.to_string(), Some("a")));
    }
    let a = cache.next(now).unwrap();
    cache.record(&a, read(None), now);
    cache.replace(vec![pod("0", Some("a"))]);
    assert_eq!(name(&cache, "1").as_deref(), Some("a"));
    cache.replace(Vec::new());
    assert_eq!(cache.pods.len(), MAX_GONE_PODS);
    assert_eq!(name(&cache, "0").as_deref(), Some("a"), "the oldest is dropped");
    assert!(cache.objects.is_empty(), "owners of deleted pods are dropped");
    cache.put(pod("0", Some("a")));
    assert_eq!(cache.gone.len(), MAX_GONE_PODS - 1, "it exists again");
}

#[test]
fn an_owner_reference_in_one_namespace_does_not_affect_another() {
    let (mut cache, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
    cache.put(WatchedPod { namespace: "evil".into(), ..pod("e", Some("a")) });
    cache.put(pod("p", Some("a")));
    for _ in 0..2 {
        let owner_ref = cache.next(now).unwrap();
        let is_true = owner_ref.namespace == "ml";
        let lookup = if is_true { read(Some("b")) } else { failed(ApiError::Gone) };
        cache.record(&owner_ref, lookup, now);
    }
    let b = cache.next(now).unwrap();
    cache.record(&b, read(None), now);
    assert_eq!((name(&cache, "e").as_deref(), name(&cache, "p").as_deref()), (Some("a"), Some("b")));
}

#[test]
fn the_owner_of_a_cluster_scoped_object_is_cluster_scoped() {
    let (mut cache, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
    cache.put(pod("p", Some("a")));
    let a = cache.next(now).unwrap();
    assert_eq!(a.namespace, "ml");
    cache.record(&a, OwnerLookup { is_namespaced: Some(false), above: Ok(Some(reference("b"))) }, now);
    assert_eq!(cache.next(now).unwrap().namespace, "");
}

#[test]
fn errors_are_reported_once_for_each_kind() {
    let (mut cache, now) = (OwnerCache::new(RetryPolicy::default()), Instant::now());
    cache.replace(vec![pod("p", Some("a")), pod("q", Some("b")), pod("r", Some("c"))]);
    for failure in [ApiError::Denied("no".into()), ApiError::Denied("no".into()), ApiError::Gone] {
        let owner_ref = cache.next(now).unwrap();
        cache.record(&owner_ref, failed(failure), now);
    }
    let errors = cache.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].what, "owner of kind Job batch/v1: no");
    let other = OwnerRef { kind: "CronJob".into(), ..reference("d") };
    cache.put(WatchedPod { owner: Some(other), ..pod("s", None) });
    let owner_ref = cache.next(now).unwrap();
    cache.record(&owner_ref, failed(ApiError::Denied("no".into())), now);
    let kinds: Vec<_> = cache.errors().into_iter().map(|error| error.what).collect();
    assert_eq!(kinds, ["owner of kind CronJob batch/v1: no", "owner of kind Job batch/v1: no"]);
}
