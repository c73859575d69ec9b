//! Maps that are damaged, missing or stale, and directories that cannot be created.

use std::{fs, io};

use super::*;
use crate::{ClaimOwner, ReleaseOutcome, store::kill_point::killable};

/// Returns a store with a pool of ten addresses, of which five are claimed.
fn half_full() -> (StoreFixture, Pool) {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.10"]));
    for n in 0..5 {
        node.claim(&pool, &format!("c{n}@net1")).unwrap();
    }
    (node, pool)
}

/// Checks that exactly the other five addresses can be claimed.
fn rest_is_five(node: &StoreFixture, pool: &Pool, what: &str) {
    node.touch_claims();
    let rest = node.fill(pool, "rest");
    assert_eq!(rest.len(), 5, "{what}");
    assert_eq!(node.store.claims().unwrap().len(), 10, "{what}");
}

#[test]
fn ipam_case_049_a_truncated_map_is_rewritten() {
    for len in [0, 1, 63, 64, 95, 96, 103] {
        let (node, pool) = half_full();
        let map = fs::OpenOptions::new().write(true).open(node.map_path(&pool)).unwrap();
        map.set_len(len).unwrap();
        rest_is_five(&node, &pool, &format!("{len} bytes"));
    }
}

#[test]
fn ipam_case_050_any_damaged_byte_is_tolerated() {
    for at in 0..104 {
        for flip in [0x01, 0x80, 0xff] {
            let (node, pool) = half_full();
            let mut bytes = fs::read(node.map_path(&pool)).unwrap();
            assert_eq!(bytes.len(), 104);
            bytes[at] ^= flip;
            fs::write(node.map_path(&pool), bytes).unwrap();
            assert!(matches!(
                node.store.release(Some("p"), address("10.0.0.1"), &attachment("x@net1")).unwrap(),
                ReleaseOutcome::NotOurs(_)
            ));
            rest_is_five(&node, &pool, &format!("byte {at} by {flip:#x}"));
        }
    }
}

#[test]
fn zeros_noise_and_missing_maps_are_rewritten() {
    for bytes in [vec![0; 104], vec![0xff; 104], b"silkmap\0".repeat(20)] {
        let (node, pool) = half_full();
        fs::write(node.map_path(&pool), &bytes).unwrap();
        rest_is_five(&node, &pool, "other bytes");
    }
    let (node, pool) = half_full();
    fs::remove_file(node.map_path(&pool)).unwrap();
    node.release(&pool, address("10.0.0.1"), "c0@net1");
    node.claim(&pool, "again@net1").unwrap();
    rest_is_five(&node, &pool, "no map");
}

#[test]
fn ipam_case_109_ranges_may_grow_and_shrink() {
    let (node, small) = half_full();
    let large = pool("p", &["10.0.0.4-10.0.0.12"]);
    let given = node.fill(&large, "d");
    assert_eq!(given.len(), 7, "4 and 5 are still claimed");
    node.release(&large, address("10.0.0.1"), "c0@net1");
    assert_eq!(node.claim(&small, "e@net1").unwrap(), address("10.0.0.1"));
}

#[test]
fn ipam_case_046_a_kill_between_two_steps_loses_nothing() {
    let (node, pool) = half_full();
    node.store.claims.take(address("10.0.0.6"), "killed@net1").unwrap(); // a link without its bit
    let (map, ordinal) = node.store.maps.find(&pool.name, address("10.0.0.1"), soon()).unwrap().unwrap();
    map.clear(ordinal).unwrap(); // a release that cleared the bit and not the link
    drop(map);
    assert_eq!(node.fill(&pool, "rest").len(), 4);
    assert_eq!(node.store.claims().unwrap().len(), 10);
    assert_eq!(
        node.store.owner(address("10.0.0.1")).unwrap(),
        Some(ClaimOwner::Attachment(attachment("c0@net1")))
    );
}

#[test]
fn a_partly_created_store_is_completed() {
    let old = "00000000-0000-0000-0000-000000000000";
    for at in 0..8 {
        let state = tempfile::tempdir().unwrap();
        LocalStore::open(state.path(), old).unwrap();
        let killed = killable(at, || LocalStore::open(state.path(), BOOT_ID).map(drop)).is_none();
        assert_eq!(killed, at < 5, "four directories are created and one is removed");
        let store = LocalStore::open(state.path(), BOOT_ID).unwrap();
        let pool = pool("p", &["10.0.0.1"]);
        let claimed = store.claim(&pool, &attachment("a@net1"), soon(), |_| Ok::<_, StoreError>(()));
        assert_eq!(claimed.unwrap(), address("10.0.0.1"));
    }
}

#[test]
fn ipam_case_046_a_kill_at_any_step_of_a_claim_loses_no_address() {
    for at in 0.. {
        let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.4"]));
        let killed = killable(at, || node.claim(&pool, "killed@net1").map(drop)).is_none();
        let held = node.store.owned_by(&attachment("killed@net1")).unwrap();
        assert_eq!(node.fill(&pool, "rest").len(), 4 - held.len(), "killed at {at}");
        for address in held {
            node.release(&pool, address, "killed@net1");
            assert_eq!(node.claim(&pool, "last@net1").unwrap(), address, "killed at {at}");
        }
        if !killed {
            assert!(at > 6, "a map is written and an address claimed in {at} steps");
            return;
        }
    }
}

#[test]
fn other_files_with_the_name_of_an_address_are_left_unchanged() {
    let (node, pool) = half_full();
    fs::write(node.link("10.0.0.6"), "not a link").unwrap();
    fs::create_dir(node.link("10.0.0.7")).unwrap();
    std::os::unix::fs::symlink("not an owner", node.link("10.0.0.8")).unwrap();
    std::os::unix::fs::symlink("x@net1", node.link("010.0.0.9")).unwrap();
    assert_eq!(node.fill(&pool, "rest").len(), 2);
    let owner = node.store.owner(address("10.0.0.8")).unwrap();
    assert_eq!(owner, Some(ClaimOwner::Unknown("not an owner".to_owned())));
    assert_eq!(node.store.claims().unwrap().len(), 10);
    assert_eq!(node.store.claims().unwrap()[9].address, address("10.0.0.10"), "they are sorted");
    let release = |owner: &str| {
        let owner = ClaimOwner::Unknown(owner.to_owned());
        node.store.release_claim::<StoreError>(address("10.0.0.8"), &owner, || Ok(true)).unwrap()
    };
    assert!(matches!(release("another owner"), ReleaseOutcome::NotOurs(_)));
    assert_eq!(release("not an owner"), ReleaseOutcome::Released);
}

#[test]
fn ipam_case_052_a_directory_that_cannot_be_created_is_an_error() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("file");
    fs::write(&file, "").unwrap();
    let error = LocalStore::open(&file, BOOT_ID).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }) && error.to_string().contains("/file"), "{error}");
    assert!(matches!(LocalStore::open(std::path::Path::new("/proc"), BOOT_ID), Err(StoreError::Io { .. })));
    for (kind, advice) in [
        (io::ErrorKind::StorageFull, "free space"),
        (io::ErrorKind::ReadOnlyFilesystem, "stateDir"),
        (io::ErrorKind::PermissionDenied, "root"),
    ] {
        let error = StoreError::io("create claim", "/run/x")(io::Error::from(kind)).to_string();
        assert!(error.starts_with("cannot create claim /run/x (") && error.contains(advice), "{error}");
    }
}

#[test]
fn a_link_in_place_of_a_directory_is_not_followed() {
    let (state, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = state.path().join("ipam").join(BOOT_ID);
    fs::create_dir_all(&root).unwrap();
    fs::create_dir(root.join("maps")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), root.join("claims")).unwrap();
    assert!(matches!(LocalStore::open(state.path(), BOOT_ID), Err(StoreError::Io { .. })));
}
