//! The blocks of a node: claims from them, and their withdrawal at the same time.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use super::*;
use crate::{IpBlock, store::kill_point};

fn block(name: &str) -> IpBlock {
    name.parse().unwrap()
}

#[test]
fn addresses_come_from_the_blocks_of_the_node() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.30-10.0.0.40"]));
    let store = &node.store;
    assert_eq!(store.blocks().unwrap(), []);
    let (first, second) = (block("10.0.0.32-30"), block("10.0.0.40-30"));
    for block in [second, first, first] {
        store.offer(block).unwrap();
    }
    assert_eq!(store.blocks().unwrap(), [first, second]);
    let leased = pool.in_blocks(&store.blocks().unwrap());
    let given: Vec<_> =
        (0..5).map(|n| node.claim(&leased, &format!("c{n}@net1")).unwrap().to_string()).collect();
    assert_eq!(given, ["10.0.0.32", "10.0.0.33", "10.0.0.34", "10.0.0.35", "10.0.0.40"]);
    assert!(matches!(node.claim(&leased, "d@net1"), Err(StoreError::Exhausted { addresses: 5, .. })));
}

#[test]
fn a_withdrawn_block_gives_no_address_to_a_process_that_read_it_earlier() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.0-10.0.0.7"]));
    let store = &node.store;
    let (first, second) = (block("10.0.0.0-30"), block("10.0.0.4-30"));
    store.offer(first).unwrap();
    store.offer(second).unwrap();
    let leased = pool.in_blocks(&store.blocks().unwrap());
    assert_eq!(store.withdraw(first).unwrap(), Vec::<IpAddr>::new());
    assert_eq!(node.claim(&leased, "a@net1").unwrap(), address("10.0.0.4"));
    let requested = |text: &str| store.claim_address(&leased, address(text), &"b@net1".parse().unwrap());
    assert!(matches!(requested("10.0.0.1"), Err(StoreError::NoBlock { .. })));
    requested("10.0.0.5").unwrap();
    assert_eq!(store.claimed_in(first).unwrap(), Vec::<IpAddr>::new());
    assert_eq!(store.withdraw(second).unwrap(), [address("10.0.0.4"), address("10.0.0.5")]);
    assert_eq!(store.withdraw(second).unwrap().len(), 2, "it can be withdrawn again");
    assert_eq!((store.blocks().unwrap(), store.withdrawn().unwrap()), (vec![], vec![first, second]));
    assert!(matches!(node.claim(&leased, "c@net1"), Err(StoreError::Exhausted { .. })));
    store.offer(first).unwrap();
    assert_eq!((store.blocks().unwrap(), store.withdrawn().unwrap()), (vec![first], vec![second]));
    store.forget(second).unwrap();
    assert_eq!(store.withdrawn().unwrap(), []);
    assert_eq!(node.claim(&leased, "c@net1").unwrap(), address("10.0.0.0"));
}

#[test]
fn a_claim_that_is_killed_at_any_point_keeps_the_block() {
    let pool = pool("p", &["10.0.0.0-10.0.0.3"]);
    for point in 0.. {
        let node = StoreFixture::new();
        let store = &node.store;
        let all = block("10.0.0.0-30");
        store.offer(all).unwrap();
        let leased = pool.in_blocks(&[all]);
        let claimed = kill_point::killable(point, || node.claim(&leased, "a@net1").unwrap());
        let left = store.withdraw(all).unwrap();
        if let Some(claimed) = claimed {
            assert_eq!(left, [claimed]);
            assert!(point > 2, "there is a point before the claim and one after it");
            return;
        }
        // Either it has claimed an address, which its journal knows, or none.
        assert!(left.len() <= 1, "{left:?}");
    }
}

#[test]
fn no_address_of_a_block_is_used_after_its_withdrawal() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.0-10.0.0.7"]));
    let blocks = [block("10.0.0.0-30"), block("10.0.0.4-30")];
    let (used, over) = (Mutex::new(HashSet::new()), AtomicBool::new(false));
    let (mut withdrawn, mut wrong) = (0, None);
    thread::scope(|scope| {
        for thread in 0..3 {
            let (node, pool, used, over) = (&node, &pool, &used, &over);
            scope.spawn(move || {
                let store = &node.store;
                while !over.load(Ordering::Relaxed) {
                    let leased = pool.in_blocks(&store.blocks().unwrap());
                    let owner = format!("c{thread}@net1");
                    let Ok(address) = node.claim(&leased, &owner) else { continue };
                    used.lock().unwrap().insert(address);
                    thread::yield_now();
                    used.lock().unwrap().remove(&address);
                    node.release(pool, address, &owner);
                }
            });
        }
        let store = &node.store;
        while wrong.is_none() && withdrawn < 50 {
            for block in blocks {
                store.offer(block).unwrap();
                thread::yield_now();
                if !store.withdraw(block).unwrap().is_empty() {
                    continue;
                }
                withdrawn += 1;
                for _ in 0..3 {
                    let used = used.lock().unwrap();
                    wrong = wrong.or(used.iter().copied().find(|address| block.contains(*address)));
                    drop(used);
                    thread::yield_now();
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong, None, "used after the withdrawal of its block");
}
