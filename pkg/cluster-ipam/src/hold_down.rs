//! When the blocks of a node can be given to others. Does no I/O.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use block_leases::{BlockContent, BlockRecord, RecordVersion};
use ipam::IpBlock;

/// What is known about a node that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeState {
    /// Nothing says that it is off.
    InService,
    /// It has the taint `node.kubernetes.io/out-of-service`: an administrator says that it is off.
    OutOfService,
}

/// The nodes by UID.
pub(crate) type NodeStates = BTreeMap<String, NodeState>;

/// The blocks whose nodes do not exist, with the time since which this is so.
///
/// Time is measured here, not read from objects, so clocks do not matter. A controller that starts begins with zero.
#[derive(Debug)]
pub(crate) struct HoldDowns {
    duration: Duration,
    since: BTreeMap<IpBlock, (RecordVersion, Instant)>,
}

impl HoldDowns {
    /// Returns an empty set. A node must be missing for this time before its blocks are reclaimed.
    pub(crate) fn new(duration: Duration) -> Self {
        Self { duration, since: BTreeMap::new() }
    }

    /// Begins with zero for all nodes. To be called when the API server cannot be reached: nodes cannot renew their blocks then.
    pub(crate) fn restart(&mut self) {
        self.since.clear();
    }

    /// Whether a node is missing.
    pub(crate) fn is_running(&self) -> bool {
        !self.since.is_empty()
    }

    /// Returns the records of blocks that no node uses any more: those of nodes that are out of service, and those of nodes that
    /// do not exist and have not changed their records for the time.
    pub(crate) fn due(
        &mut self,
        records: &[BlockRecord],
        nodes: &NodeStates,
        now: Instant,
    ) -> Vec<BlockRecord> {
        let mut missing = BTreeMap::new();
        let mut due = Vec::new();
        for record in records {
            let BlockContent::Leased(owner) = &record.content else { continue };
            match nodes.get(&owner.uid) {
                Some(NodeState::InService) => {}
                Some(NodeState::OutOfService) => due.push(record.clone()),
                None => {
                    let known =
                        self.since.get(&record.block).filter(|(version, _)| *version == record.version);
                    let since = known.map_or(now, |(_, since)| *since);
                    missing.insert(record.block, (record.version.clone(), since));
                    if now.saturating_duration_since(since) >= self.duration {
                        due.push(record.clone());
                    }
                }
            }
        }
        self.since = missing;
        due
    }
}

#[cfg(test)]
mod tests {
    use block_leases::BlockOwner;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn record(uid: &str, resource: &str) -> BlockRecord {
        BlockRecord {
            block: "10.0.0.0-28".parse().unwrap(),
            content: BlockContent::Leased(BlockOwner { node: "a".to_owned(), uid: uid.to_owned() }),
            is_terminating: false,
            version: RecordVersion { uid: "u".to_owned(), resource: resource.to_owned() },
        }
    }

    fn nodes(state: NodeState) -> NodeStates {
        NodeStates::from([("uid-a".to_owned(), state)])
    }

    #[test]
    fn a_node_that_exists_keeps_its_blocks_unless_it_is_out_of_service() {
        let mut all = HoldDowns::new(10 * MINUTE);
        let now = Instant::now();
        let records = [record("uid-a", "1")];
        assert_eq!(all.due(&records, &nodes(NodeState::InService), now + 1000 * MINUTE), []);
        assert_eq!(all.due(&records, &nodes(NodeState::OutOfService), now), records);
    }

    #[test]
    fn a_node_must_be_missing_and_silent_for_the_whole_time() {
        let mut all = HoldDowns::new(10 * MINUTE);
        let now = Instant::now();
        let (first, renewed) = ([record("uid-a", "1")], [record("uid-a", "2")]);
        let none = NodeStates::new();
        assert_eq!(all.due(&first, &none, now), []);
        assert_eq!(all.due(&first, &none, now + 9 * MINUTE), []);
        // It has renewed its block.
        assert_eq!(all.due(&renewed, &none, now + 10 * MINUTE), []);
        assert_eq!(all.due(&renewed, &none, now + 19 * MINUTE), []);
        // It exists again.
        assert_eq!(all.due(&renewed, &nodes(NodeState::InService), now + 20 * MINUTE), []);
        assert_eq!(all.due(&renewed, &none, now + 21 * MINUTE), []);
        assert_eq!(all.due(&renewed, &none, now + 30 * MINUTE), []);
        assert_eq!(all.due(&renewed, &none, now + 31 * MINUTE), renewed);
    }

    #[test]
    fn an_outage_of_the_api_server_does_not_count() {
        let mut all = HoldDowns::new(10 * MINUTE);
        let now = Instant::now();
        let (records, none) = ([record("uid-a", "1")], NodeStates::new());
        assert!(!all.is_running());
        all.due(&records, &none, now);
        assert!(all.is_running());
        all.restart();
        assert_eq!(all.due(&records, &none, now + 10 * MINUTE), []);
        assert_eq!(all.due(&records, &none, now + 20 * MINUTE), records);
    }

    #[test]
    fn a_node_with_the_same_name_is_another_one() {
        let mut all = HoldDowns::new(MINUTE);
        let now = Instant::now();
        let records = [record("uid-of-former", "1")];
        assert_eq!(all.due(&records, &nodes(NodeState::InService), now), []);
        assert_eq!(all.due(&records, &nodes(NodeState::InService), now + MINUTE), records);
    }

    #[test]
    fn each_block_has_its_own_time() {
        let mut all = HoldDowns::new(10 * MINUTE);
        let now = Instant::now();
        let at = |block: &str, uid: &str| BlockRecord { block: block.parse().unwrap(), ..record(uid, "1") };
        let (first, second) = (at("10.0.0.0-28", "gone"), at("10.0.0.16-28", "also-gone"));
        let present = at("10.0.0.32-28", "uid-a");
        let nodes = nodes(NodeState::InService);
        assert_eq!(all.due(&[present.clone(), first.clone()], &nodes, now), []);
        let records = [present, first.clone(), second.clone()];
        assert_eq!(all.due(&records, &nodes, now + 5 * MINUTE), []);
        assert_eq!(all.due(&records, &nodes, now + 10 * MINUTE), std::slice::from_ref(&first));
        assert!(all.is_running());
        assert_eq!(all.due(&records, &nodes, now + 15 * MINUTE), [first, second]);
        all.due(&records[..1], &nodes, now + 16 * MINUTE);
        assert!(!all.is_running(), "the records are gone");
    }

    #[test]
    fn parents_are_not_leased() {
        let parent = BlockRecord { content: BlockContent::Parent(16.try_into().unwrap()), ..record("", "1") };
        let mut all = HoldDowns::new(Duration::ZERO);
        assert_eq!(all.due(&[parent], &NodeStates::new(), Instant::now()), []);
    }
}
