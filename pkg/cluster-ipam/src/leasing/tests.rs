//! What is remembered of pools and addresses, and the answers that follow from it. No request is made.

use std::collections::BTreeSet;

use block_leases::BlockOwner;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::*;
use crate::{
    block_availability::{BlockAvailability, pool_with},
    node_object::NodeLabels,
    offline_node::OfflineNode,
    pool_directory::PoolFiles,
    socket::{AgentAnswer, BlockRequest, FAILURE_DELAY, Waiting},
};

const SECOND: Duration = Duration::from_secs(1);

struct LeasesFixture {
    leases: PoolLeases,
    pools: PoolFiles,
    reserved: BTreeSet<IpAddr>,
    _node: OfflineNode,
}

impl LeasesFixture {
    fn new() -> Self {
        let node = OfflineNode::new();
        let api = node.api();
        let owner = BlockOwner { node: "n".to_owned(), uid: "u".to_owned() };
        let leases = PoolLeases::new(api.clone(), BlockLeases::new(api, node.store(), owner), "u".to_owned());
        let pool = |name: &str, net: u8, more: Value| {
            let mut spec =
                json!({"subnet": format!("10.{net}.0.0/24"), "ips": [format!("10.{net}.0.1-10.{net}.0.9")]});
            spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
            let object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": name}, "spec": spec});
            serde_json::from_value(object).unwrap()
        };
        let objects =
            [pool("a", 0, Value::Null), pool("b", 1, Value::Null), pool("off", 2, json!({"disable": true}))];
        let reserved = BTreeSet::from(["10.0.0.5".parse().unwrap(), "10.2.0.5".parse().unwrap()]);
        let pools = PoolFiles::of(&objects, [], &reserved, "n", &NodeLabels::new());
        Self { leases, pools, reserved, _node: node }
    }

    fn pool(&self, name: &str) -> ClusterPool {
        self.pools.get(name).unwrap().clone()
    }

    fn exhaust(&mut self, name: &str, ago: Duration) {
        let pool = self.pool(name);
        self.leases.remember_exhausted(&pool);
        let exhausted = self.leases.exhausted.get_mut(&pool.pool.name).unwrap();
        (exhausted.since, exhausted.jitter) = (Instant::now() - ago, 0.5);
    }

    fn answer(
        &self,
        pools: &[&str],
        address: Option<&str>,
        waited: Duration,
        failure: Option<&str>,
    ) -> Option<AgentAnswer> {
        let mut waiting = waiting(pools, address);
        waiting.since = Instant::now() - waited;
        BlockAvailability::new(&self.pools, &self.leases, &self.reserved, failure).answer_to(&waiting)
    }
}

fn request(pools: &[&str], address: Option<&str>) -> BlockRequest {
    let pools = pools.iter().map(|name| (*name).to_owned()).collect();
    BlockRequest { pools, address: address.map(|text| text.parse().unwrap()) }
}

fn waiting(pools: &[&str], address: Option<&str>) -> Waiting<BlockRequest> {
    Waiting::new(request(pools, address), oneshot::channel().0)
}

#[test]
fn that_no_block_is_left_is_remembered_for_longer_if_none_waits() {
    let mut node = LeasesFixture::new();
    assert!(node.leases.exhausted(&node.pool("a"), true).is_none());
    for (ago, urgent, idle, with_another) in [
        (0, true, true, true),
        (4, true, true, true),
        (6, false, true, true),
        (59, false, true, true),
        (61, false, true, false),
        // With its random part, it is three minutes.
        (179, false, true, false),
        (181, false, false, false),
    ] {
        node.exhaust("a", ago * SECOND);
        let pool = node.pool("a");
        let found = (
            node.leases.exhausted(&pool, true).is_some(),
            node.leases.exhausted(&pool, false).is_some(),
            node.leases.was_exhausted(&pool),
        );
        assert_eq!(found, (urgent, idle, with_another), "{ago}");
        assert!(node.leases.exhausted(&node.pool("b"), false).is_none(), "another pool");
    }
}

#[test]
fn a_request_is_refused_only_if_none_of_its_pools_can_ever_have_an_address() {
    let mut node = LeasesFixture::new();
    let now = Duration::ZERO;
    assert_eq!(node.answer(&["a", "b"], None, FAILURE_DELAY, None), None, "nothing is known");
    node.exhaust("a", now);
    assert_eq!(node.answer(&["a", "b"], None, now, None), None, "the second may have one");
    let gone = node.answer(&["gone", "off", "a"], None, now, None).unwrap();
    let text = gone.error.unwrap();
    assert!(
        !gone.retry && text.starts_with("IPPool gone does not exist in the cluster; IPPool off is disabled"),
        "{text}"
    );
    assert!(
        text.ends_with(
            "no block is free: this node has 0, other nodes 0 (kubectl get ipblocks); extend its ips"
        ),
        "{text}"
    );
    // A failure is reported when it has lasted, and then it can be tried again.
    let failure = Some("no API server");
    assert_eq!(node.answer(&["a", "b"], None, FAILURE_DELAY - SECOND, failure), None);
    let failed = node.answer(&["a", "b"], None, FAILURE_DELAY, failure).unwrap();
    assert_eq!(failed, AgentAnswer::unavailable("no API server".to_owned()));
    node.exhaust("b", now);
    assert!(!node.answer(&["a", "b"], None, FAILURE_DELAY, failure).unwrap().retry);
}

#[test]
fn an_address_is_refused_if_no_pool_has_it_or_another_node_keeps_it() {
    let mut node = LeasesFixture::new();
    let now = Duration::ZERO;
    for (address, pool) in [
        ("10.0.0.1", Some("a")),
        ("10.1.0.1", Some("b")),
        // It is reserved: only the pool that is named has it.
        ("10.0.0.5", Some("a")),
        ("10.2.0.5", None),
        ("10.9.0.1", None),
    ] {
        let names = if address == "10.2.0.5" { ["off"] } else { ["a"] };
        let found = pool_with(&node.pools, &node.reserved, &request(&names, None), address.parse().unwrap());
        assert_eq!(found.map(|pool| pool.pool.name.as_str()), pool, "{address}");
        let answer = node.answer(&names, Some(address), now, None);
        assert_eq!(
            answer.is_some_and(|answer| !answer.retry && answer.error.is_some()),
            pool.is_none(),
            "{address}"
        );
    }
    let other = pool_with(&node.pools, &node.reserved, &request(&["b"], None), "10.0.0.5".parse().unwrap());
    assert!(other.is_none() && node.answer(&["b"], Some("10.0.0.5"), now, None).is_some());
    let mut take = |address: &str, is_alone, lasts: Duration| {
        let outcome = AddressOutcome::Taken { problem: "taken".to_owned(), is_alone };
        node.leases.addresses.insert(address.parse().unwrap(), (Instant::now() + lasts, outcome));
    };
    take("10.0.0.1", true, 60 * SECOND);
    take("10.0.0.2", false, 60 * SECOND);
    take("10.0.0.3", false, now);
    take("10.0.0.5", true, 60 * SECOND);
    let refused = Some(AgentAnswer::refused("taken".to_owned()));
    assert_eq!(node.answer(&["a"], Some("10.0.0.1"), now, None), refused);
    assert_eq!(node.answer(&["a"], Some("10.0.0.2"), now, None), refused);
    assert_eq!(node.answer(&["a"], Some("10.0.0.3"), now, None), None, "it is tried again");
    // The former node is about to release it.
    assert_eq!(node.answer(&["a"], Some("10.0.0.5"), FAILURE_DELAY - SECOND, None), None);
    let later = AgentAnswer::unavailable("taken".to_owned());
    assert_eq!(node.answer(&["a"], Some("10.0.0.5"), FAILURE_DELAY, None), Some(later));
}

#[test]
fn leased_blocks_are_compared_by_their_addresses() {
    let block = |name: &str| name.parse::<IpBlock>().unwrap();
    let leased = LeasedBlocks::of(["10.0.0.0-28", "10.0.0.32-28", "10.0.1.0-24"].map(block));
    for (name, expected) in [
        ("10.0.0.4-30", true),
        ("10.0.0.16-28", false),
        ("10.0.0.32-27", true),
        ("10.0.1.9-32", true),
        ("10.0.2.0-28", false),
    ] {
        assert_eq!(leased.overlaps(block(name)), expected, "{name}");
    }
    let blocks = |ips: &str| {
        let ranges = ipam::IpRanges::new(ipam::IpFamily::V4, &[ips.parse().unwrap()], &[]);
        PoolBlocks::of(&ranges, 16.try_into().unwrap())
    };
    assert_eq!(
        (leased.count(&blocks("10.0.0.1-10.0.0.40")), leased.count(&blocks("10.0.0.1-10.0.9.0"))),
        (2, 3)
    );
}
