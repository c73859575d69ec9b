//! The cost of a claim, measured in bytes of maps that are read.

use super::*;
use crate::store::map::counter;

fn bytes_read(work: impl FnOnce()) -> usize {
    counter::take();
    work();
    counter::take()
}

#[test]
fn ipam_case_106_a_claim_costs_the_same_with_few_and_many_claims() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.0-10.0.255.255"]));
    let mut costs = Vec::new();
    let mut taken = 0;
    for wanted in [10, 50_000] {
        while taken < wanted {
            node.claim(&pool, &format!("c{taken}@net1")).unwrap();
            taken += 1;
        }
        let mut given = None;
        let claim = bytes_read(|| given = node.claim(&pool, "x@net1").ok());
        let release = bytes_read(|| node.release(&pool, given.unwrap(), "x@net1"));
        costs.push((claim, release));
    }
    assert!(costs[0].0 > 0);
    assert_eq!(costs[0], costs[1]);
}

#[test]
fn ipam_case_028_a_full_pool_lists_the_claims_once() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.1-10.0.0.50"]));
    node.fill(&pool, "c");
    std::thread::sleep(std::time::Duration::from_millis(40)); // longer than the granularity of timestamps
    let map = || std::fs::metadata(node.map_path(&pool)).unwrap().modified().unwrap();
    assert!(node.claim(&pool, "x@net1").is_err());
    let listed = map();
    std::thread::sleep(std::time::Duration::from_millis(40));
    for _ in 0..5 {
        assert!(node.claim(&pool, "x@net1").is_err());
    }
    assert_eq!(map(), listed, "nothing changed, so the map is not rewritten");
}

#[test]
fn ipam_case_026_a_nearly_full_pool_reads_its_map_at_most_once() {
    let (node, pool) = (StoreFixture::new(), pool("p", &["10.0.0.0-10.1.134.159"])); // 100,000
    for address in 0..99_999_u128 {
        node.store.claims.take(pool.ranges.nth(address).unwrap(), "x@net1").unwrap();
    }
    assert!(bytes_read(|| assert!(node.claim(&pool, "first@net1").is_ok())) < 20_000);
    node.release(&pool, pool.ranges.nth(50_000).unwrap(), "x@net1");
    assert!(bytes_read(|| assert!(node.claim(&pool, "second@net1").is_ok())) < 20_000);
}
