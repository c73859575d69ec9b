//! Checks for free addresses, conditional releases, and stores of other boots.

use super::*;
use crate::store::map::counter;

#[test]
fn pools_have_room_until_the_last_address_is_claimed() {
    let (node, small, large) =
        (StoreFixture::new(), pool("s", &["10.0.0.1-10.0.0.2"]), pool("l", &["10.0.1.1-10.0.1.3"]));
    node.store.has_room(&[]).unwrap();
    node.store.has_room(&[&small]).unwrap();
    let given = node.fill(&small, "s");
    let error = node.store.has_room(&[&small]).unwrap_err();
    assert!(matches!(error, StoreError::Exhausted { addresses: 2, .. }), "{error}");
    node.store.has_room(&[&small, &large]).unwrap();
    node.fill(&large, "l");
    let error = node.store.has_room(&[&small, &large]).unwrap_err().to_string();
    assert!(error.contains("all IP addresses used out") && error.contains("[s l]"), "{error}");
    node.release(&small, given[0], "s0@net1");
    node.store.has_room(&[&small, &large]).unwrap();
}

#[test]
fn an_empty_pool_has_no_room() {
    let node = StoreFixture::new();
    let mut empty = pool("p", &["10.0.0.1"]);
    empty.ranges = empty.ranges.without(&["10.0.0.1".parse().unwrap()]);
    assert!(matches!(node.store.has_room(&[&empty]), Err(StoreError::Exhausted { addresses: 0, .. })));
}

#[test]
fn the_claims_count_if_the_map_is_stale() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.4"]));
    let given = node.fill(&pool, "c");
    // Released without the map: all bits are set, and one address is free.
    node.store.release(None, given[2], &attachment("c2@net1")).unwrap();
    node.store.has_room(&[&pool]).unwrap();
    node.store.claims.take(given[2], "x@net1").unwrap();
    assert!(node.store.has_room(&[&pool]).is_err());
    // A map with a clear bit although all addresses are claimed, and then no map.
    let (map, ordinal) = node.store.maps.find(&pool.name, given[1], soon()).unwrap().unwrap();
    map.clear(ordinal).unwrap();
    drop(map);
    assert!(node.store.has_room(&[&pool]).is_err());
    fs::remove_file(node.map_path(&pool)).unwrap();
    assert!(node.store.has_room(&[&pool]).is_err());
    assert!(!node.map_path(&pool).exists(), "nothing is written");
}

#[test]
fn a_check_for_room_costs_the_same_with_few_and_many_claims() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.0-10.0.255.255"]));
    let mut taken = 0;
    let costs = [10, 20_000].map(|wanted| {
        while taken < wanted {
            node.claim(&pool, &format!("c{taken}@net1")).unwrap();
            taken += 1;
        }
        counter::take();
        node.store.has_room(&[&pool]).unwrap();
        counter::take()
    });
    assert_eq!(costs[0], costs[1]);
}

#[test]
fn a_check_for_room_does_not_wait_for_the_lock() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.4"]));
    node.claim(&pool, "c@net1").unwrap();
    let _held = node.store.maps.lock(&pool.name, soon()).unwrap();
    // A wait for it would end with an error.
    node.store.has_room(&[&pool]).unwrap();
}

#[test]
fn an_address_is_released_only_on_the_condition_and_by_its_owner() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1"]));
    let address = node.claim(&pool, "c@net1").unwrap();
    let release = |owner: &str, may: bool| {
        node.store.release_when::<StoreError>(address, &attachment(owner), || Ok(may)).unwrap()
    };
    assert_eq!(release("c@net1", false), crate::ReleaseOutcome::Kept);
    assert!(matches!(release("x@net1", true), crate::ReleaseOutcome::NotOurs(_)));
    assert_eq!(release("c@net1", true), crate::ReleaseOutcome::Released);
    assert_eq!(release("c@net1", true), crate::ReleaseOutcome::Absent);
    let failed = || Err(StoreError::BootId("no".to_owned()));
    assert!(
        node.store.release_when(address, &attachment("c@net1"), failed).is_err(),
        "evaluated in any case"
    );
    assert_eq!(node.claim(&pool, "d@net1").unwrap(), address, "it is allocated again");
}

#[test]
fn a_claim_that_is_being_removed_is_not_reused() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1"]));
    let address = node.claim(&pool, "c@net1").unwrap();
    std::thread::scope(|scope| {
        let (inside, is_inside) = std::sync::mpsc::channel();
        let store = &node.store;
        let remover = scope.spawn(move || {
            let slow = || {
                inside.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(100));
                Ok::<_, StoreError>(true)
            };
            store.release_when(address, &attachment("c@net1"), slow).unwrap()
        });
        is_inside.recv().unwrap();
        node.store.claims.take(address, "c@net1").unwrap();
        assert_eq!(remover.join().unwrap(), crate::ReleaseOutcome::Released);
    });
    let owner = node.store.owner(address).unwrap();
    assert_eq!(owner, Some(crate::ClaimOwner::Attachment(attachment("c@net1"))), "the new claim remains");
}

#[test]
fn stores_of_other_boots_are_listed_and_removed() {
    const FORMER: &str = "00000000-0000-0000-0000-000000000000";
    let node = StoreFixture::new();
    let (state, former) = (node.state.path(), node.state.path().join("ipam").join(FORMER));
    assert!(LocalStore::other_boots(state, BOOT_ID).unwrap().is_empty());
    fs::create_dir_all(former.join("claims")).unwrap();
    fs::create_dir_all(state.join("ipam/pods")).unwrap();
    assert_eq!(LocalStore::other_boots(state, BOOT_ID).unwrap(), [FORMER]);
    LocalStore::remove_boot(state, FORMER).unwrap();
    LocalStore::remove_boot(state, FORMER).unwrap();
    assert!(!former.exists() && state.join("ipam/pods").exists());
    assert!(LocalStore::remove_boot(state, "../ipam").is_err());
    for digit in ["0", "1", "2"] {
        fs::create_dir(state.join("ipam").join(FORMER.replace('0', digit))).unwrap();
    }
    assert_eq!(node.store.remove_other_boots().unwrap(), 3);
    assert!(LocalStore::other_boots(state, BOOT_ID).unwrap().is_empty() && node.store.path().exists());
}
