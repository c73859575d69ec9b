//! Claims, releases and owners.

use std::{collections::HashSet, fs, os::unix::fs::PermissionsExt, thread, time::Duration};

use super::*;
use crate::{AddressClaim, ClaimOwner, MAX_ADDRESSES, ReleaseOutcome};

#[test]
fn ipam_case_001_three_addresses_are_allocated_then_the_pool_is_exhausted() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.10-10.0.0.12"]));
    let given: Vec<_> =
        (0..3).map(|n| node.claim(&pool, &format!("c{n}@net1")).unwrap().to_string()).collect();
    assert_eq!(given, ["10.0.0.10", "10.0.0.11", "10.0.0.12"]);
    let error = node.claim(&pool, "c3@net1").unwrap_err().to_string();
    let expected = "all IP addresses used out: IPPool p has 3 addresses and all are claimed; extend its ips";
    assert_eq!(error, expected);
}

#[test]
fn ipam_case_002_a_single_address_is_allocated_once() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.10"]));
    node.claim(&pool, "a@net1").unwrap();
    let error = node.claim(&pool, "b@net1").unwrap_err();
    assert!(matches!(error, StoreError::Exhausted { addresses: 1, .. }));
    assert!(error.to_string().contains("IPPool p has 1 address and it is claimed"), "{error}");
    node.release(&pool, address("10.0.0.10"), "a@net1");
    assert_eq!(node.claim(&pool, "b@net1").unwrap(), address("10.0.0.10"));
}

#[test]
fn ipam_case_009_a_pool_without_addresses_is_exhausted() {
    let mut pool = pool("p", &["10.0.0.10"]);
    pool.ranges = pool.ranges.without(&["10.0.0.0-10.0.0.255".parse().unwrap()]);
    assert!(matches!(
        StoreFixture::new().claim(&pool, "a@net1"),
        Err(StoreError::Exhausted { addresses: 0, .. })
    ));
}

#[test]
fn ipam_case_020_one_familys_claim_is_free_again_when_the_other_fails() {
    let (node, v4, v6) = (StoreFixture::new(), pool("v4", &["10.0.0.1"]), pool("v6", &["fd00::1"]));
    node.claim(&v6, "other@net1").unwrap();
    let given = node.claim(&v4, "a@net1").unwrap();
    assert!(node.claim(&v6, "a@net1").is_err());
    node.release(&v4, given, "a@net1");
    assert_eq!(node.claim(&v4, "b@net1").unwrap(), given);
}

#[test]
fn ipam_case_021_022_023_huge_pools_and_the_last_addresses() {
    let node = StoreFixture::new();
    let v6 = pool("v6", &["fd00::-fd00::ffff:ffff:ffff:ffff"]);
    assert_eq!(node.claim(&v6, "a@net1").unwrap(), address("fd00::"));
    assert_eq!(fs::metadata(node.map_path(&v6)).unwrap().len(), 64 + 32 + u64::from(MAX_ADDRESSES) / 8);
    let v4 = pool("v4", &["10.0.0.0-10.255.255.255"]);
    assert_eq!(node.claim(&v4, "a@net1").unwrap(), address("10.0.0.0"));
    let json =
        json!([{"name": "end", "subnet": "255.255.255.0/24", "ips": ["255.255.255.254-255.255.255.255"]}]);
    let pools = Pools::from_inline(&json).unwrap();
    assert_eq!(
        node.fill(pools.get("end").unwrap(), "e"),
        [address("255.255.255.254"), address("255.255.255.255")]
    );
}

#[test]
fn ipam_case_024_records_are_canonical() {
    let node = StoreFixture::new();
    node.claim(&pool("p", &["FD00:0::000A"]), "a@net1").unwrap();
    assert_eq!(fs::read_link(node.link("fd00::a")).unwrap().to_str(), Some("a@net1"));
}

#[test]
fn ipam_case_025_ten_thousand_claims_are_distinct() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.39.16"]));
    let given: HashSet<_> = node.fill(&pool, "c").into_iter().collect();
    assert_eq!(given.len(), 10_000);
}

#[test]
fn ipam_case_029_a_released_address_is_not_reused_while_others_are_free() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.4"]));
    let first = node.claim(&pool, "a@net1").unwrap();
    node.release(&pool, first, "a@net1");
    let next: Vec<_> = (0..4).map(|n| node.claim(&pool, &format!("c{n}@net1")).unwrap()).collect();
    assert_eq!(next[3], first);
}

#[test]
fn a_release_restores_the_map_except_for_the_rotor() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.100"]));
    node.claim(&pool, "a@net1").unwrap();
    let bitmap = || fs::read(node.map_path(&pool)).unwrap().split_off(96);
    let before = bitmap();
    let given = node.claim(&pool, "b@net1").unwrap();
    assert_ne!(bitmap(), before);
    node.release(&pool, given, "b@net1");
    assert_eq!(bitmap(), before);
}

#[test]
fn addresses_are_tried_in_list_order() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.9", "10.0.0.1-10.0.0.2", "10.0.0.5"]));
    let given: Vec<_> = node.fill(&pool, "c").iter().map(ToString::to_string).collect();
    assert_eq!(given, ["10.0.0.9", "10.0.0.1", "10.0.0.2", "10.0.0.5"]);
}

#[test]
fn ipam_case_033_034_interfaces_of_one_pod_get_different_addresses() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.8"]));
    let given: HashSet<_> = (0..8).map(|n| node.claim(&pool, &format!("pod@net{n}")).unwrap()).collect();
    assert_eq!(given.len(), 8);
    assert!(matches!(node.claim(&pool, "pod@net8"), Err(StoreError::Exhausted { .. })));
}

#[test]
fn ipam_case_035_039_a_release_frees_only_that_interface() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.8"]));
    let owners = ["a@net1", "a@net2", "b@net1"];
    let given: Vec<_> = owners.iter().map(|owner| node.claim(&pool, owner).unwrap()).collect();
    node.release(&pool, given[0], "a@net1");
    assert_eq!(node.store.owned_by(&attachment("a@net1")).unwrap(), [] as [IpAddr; 0]);
    assert_eq!(node.store.owned_by(&attachment("a@net2")).unwrap(), [given[1]]);
    assert_eq!(node.store.owned_by(&attachment("b@net1")).unwrap(), [given[2]]);
}

#[test]
fn ipam_case_036_037_releases_of_nothing_change_nothing() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.8"]));
    let ours = attachment("a@net1");
    assert_eq!(node.store.release(Some("p"), address("10.0.0.1"), &ours).unwrap(), ReleaseOutcome::Absent);
    let given = node.claim(&pool, "a@net1").unwrap();
    node.release(&pool, given, "a@net1");
    assert_eq!(node.store.release(Some("p"), given, &ours).unwrap(), ReleaseOutcome::Absent);
    node.claim(&pool, "b@net1").unwrap();
    let theirs = address("10.0.0.2");
    let outcome = node.store.release(Some("p"), theirs, &ours).unwrap();
    assert_eq!(outcome, ReleaseOutcome::NotOurs(ClaimOwner::Attachment(attachment("b@net1"))));
    assert!(node.store.owner(theirs).unwrap().is_some());
}

#[test]
fn ipam_case_040_a_release_needs_no_pool() {
    for name in [None, Some("gone"), Some("../p"), Some("")] {
        let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1"]));
        let given = node.claim(&pool, "a@net1").unwrap();
        assert_eq!(node.store.release(name, given, &attachment("a@net1")).unwrap(), ReleaseOutcome::Released);
        assert_eq!(node.claim(&pool, "b@net1").unwrap(), given, "allocated again when the pool appears full");
    }
}

#[test]
fn a_claim_of_an_earlier_attempt_is_found_again() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.2"]));
    node.claim(&pool, "other@net1").unwrap();
    node.store.claims.take(address("10.0.0.2"), "a@net1").unwrap(); // as if killed before the bit was set
    assert_eq!(node.claim(&pool, "a@net1").unwrap(), address("10.0.0.2"));
}

#[test]
fn every_address_is_recorded_before_it_is_claimed() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.2"]));
    let note = |address| {
        assert_eq!(node.store.owner(address).unwrap(), None);
        Err(StoreError::BootId("no".to_owned()))
    };
    let failed = node.store.claim(&pool, &attachment("a@net1"), soon(), note);
    assert!(matches!(failed, Err(StoreError::BootId(_))));
    assert_eq!(node.store.claims().unwrap(), []);
    assert_eq!(node.claim(&pool, "a@net1").unwrap(), address("10.0.0.1"));
}

#[test]
fn ipam_case_071_the_next_pool_is_tried_if_one_is_full_but_not_if_it_is_busy() {
    let (node, first, second) = (StoreFixture::new(), pool("a", &["10.0.0.1"]), pool("b", &["10.0.0.2"]));
    let claim = |owner: &str, deadline| {
        node.store
            .claim_first(&[&first, &second], &attachment(owner), deadline, |_, _| Ok::<_, StoreError>(()))
    };
    let names: Vec<_> =
        (0..2).map(|n| claim(&format!("c{n}@net1"), soon()).unwrap().0.name.to_string()).collect();
    assert_eq!(names, ["a", "b"]);
    let error = claim("c2@net1", soon()).unwrap_err().to_string();
    let expected =
        "failed to allocate any IPv4 IP address to NIC net1 from IPPools [a b]: all IP addresses used out";
    assert!(error.starts_with(expected), "{error}");
    let one =
        node.store.claim_first(&[&first], &attachment("c2@net1"), soon(), |_, _| Ok::<_, StoreError>(()));
    assert!(matches!(one, Err(StoreError::Exhausted { addresses: 1, .. })), "{one:?}");
    node.release(&second, address("10.0.0.2"), "c1@net1");
    let _held = node.store.maps.lock(&first.name, soon()).unwrap();
    let busy = claim("c2@net1", Instant::now() + Duration::from_millis(20));
    assert!(matches!(busy, Err(StoreError::Busy { .. })));
}

#[test]
fn ipam_case_048_a_stopped_lock_holder_is_waited_for_until_the_deadline() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.2"]));
    let given = node.claim(&pool, "a@net1").unwrap();
    let held = node.store.maps.lock(&pool.name, soon()).unwrap();
    let deadline = Instant::now() + Duration::from_millis(30);
    let failed = node.store.claim(&pool, &attachment("b@net1"), deadline, |_| Ok::<_, StoreError>(()));
    let Err(error @ StoreError::Busy { waited, .. }) = failed else { panic!("{failed:?}") };
    // The wait started after the deadline was computed, so it was a little shorter.
    assert!(Instant::now() >= deadline && !waited.is_zero(), "{error}");
    assert!(error.to_string().contains("maps/p: locked by another process; timed out after"), "{error}");
    node.release(&pool, given, "a@net1"); // a release does not need the map
    drop(held);
    assert_eq!(node.fill(&pool, "c").len(), 2);
}

#[test]
fn an_address_is_reassigned_atomically() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.2"]));
    let (old, new) = (attachment("a@net1"), attachment("b@net1"));
    let given = node.claim(&pool, "a@net1").unwrap();
    std::os::unix::fs::symlink("killed", node.link(".replacement")).unwrap();
    node.store.reassign(given, &old, &new).unwrap();
    node.store.reassign(given, &old, &new).unwrap(); // succeeds again
    assert_eq!(
        node.store.claims().unwrap(),
        [AddressClaim { address: given, owner: ClaimOwner::Attachment(new.clone()) }]
    );
    let error = node.store.reassign(given, &old, &attachment("c@net1")).unwrap_err().to_string();
    assert_eq!(error, "10.0.0.1 is not claimed by a@net1; current owner: b@net1");
    let error = node.store.reassign(address("10.0.0.2"), &old, &new).unwrap_err().to_string();
    assert_eq!(error, "10.0.0.2 is not claimed by a@net1; current owner: none");
}

#[test]
fn ipam_case_043_044_parallel_claims_are_distinct() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.100"]));
    let claim = |thread: usize| -> Vec<_> {
        (0..25).filter_map(|n| node.claim(&pool, &format!("t{thread}c{n}@net1")).ok()).collect()
    };
    let given: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || claim(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(given.len(), 100, "200 tried");
    assert_eq!(given.into_iter().collect::<HashSet<_>>().len(), 100);
}

#[test]
fn ipam_case_045_parallel_claims_and_releases_are_consistent() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.20"]));
    let churn = |thread: usize| {
        let owner = format!("t{thread}@net1");
        for _ in 0..300 {
            let given = node.claim(&pool, &owner).unwrap();
            assert_eq!(node.store.owner(given).unwrap(), Some(ClaimOwner::Attachment(attachment(&owner))));
            node.release(&pool, given, &owner);
        }
        node.claim(&pool, &owner).unwrap()
    };
    let kept: HashSet<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|thread| scope.spawn(move || churn(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(kept.len(), 6);
    assert_eq!(node.store.claims().unwrap().len(), 6);
    assert_eq!(node.fill(&pool, "rest").len(), 14);
}

#[test]
fn ipam_case_054_after_a_reboot_all_addresses_are_free() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.3"]));
    node.fill(&pool, "a");
    let next_boot = BOOT_ID.replace('6', "7");
    let store = LocalStore::open(node.state.path(), &next_boot).unwrap();
    assert!(!node.store.path().exists(), "the old boot's store is removed");
    let node = StoreFixture { state: node.state, store };
    assert_eq!(node.fill(&pool, "b").len(), 3);
}

#[test]
fn only_root_can_access_the_directories() {
    let node = StoreFixture::new();
    let root = node.store.root.clone();
    for path in [root.parent().unwrap().to_owned(), root.join("claims"), root.join("maps"), root] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700, "{}", path.display());
    }
}

#[test]
fn a_boot_id_is_checked_and_a_missing_store_is_none() {
    let state = tempfile::tempdir().unwrap();
    for bad in ["", "../../../../../../../../../../../../etc", "6F1D9A3E-5C1B-4F0E-9A53-0123456789AB"] {
        assert!(matches!(LocalStore::open(state.path(), bad), Err(StoreError::BootId(_))), "{bad}");
    }
    assert!(LocalStore::open_existing(state.path(), BOOT_ID).unwrap().is_none());
    assert!(!state.path().join("ipam").exists());
}

#[test]
fn ipam_case_108_overlapping_pools_never_allocate_an_address_twice() {
    let (node, a, b) =
        (StoreFixture::new(), pool("a", &["10.0.0.1-10.0.0.6"]), pool("b", &["10.0.0.4-10.0.0.9"]));
    let (from_a, from_b) = (node.fill(&a, "a"), node.fill(&b, "b"));
    assert_eq!((from_a.len(), from_b.len()), (6, 3));
    node.release(&a, address("10.0.0.4"), "a3@net1");
    assert_eq!(node.claim(&b, "c@net1").unwrap(), address("10.0.0.4"), "the address that a released");
}
