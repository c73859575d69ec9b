//! What a node does with its blocks, one step after the other. Whatever else happens meanwhile is searched by `tests/model`.

use std::{
    cell::RefCell,
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::*;
use crate::{RecordVersion, remove_parent};

/// A cluster and a node that answer at once.
#[derive(Debug, Default)]
struct Cluster {
    records: RefCell<BTreeMap<IpBlock, BlockRecord>>,
    changes: RefCell<u32>,
    /// The blocks of which each request fails.
    failing: RefCell<BTreeSet<IpBlock>>,
    offered: RefCell<BTreeSet<IpBlock>>,
    withdrawn: RefCell<BTreeSet<IpBlock>>,
    claimed: RefCell<BTreeSet<IpAddr>>,
}

impl Cluster {
    fn put(&self, block: IpBlock, content: BlockContent, is_terminating: bool) -> BlockRecord {
        *self.changes.borrow_mut() += 1;
        let version = RecordVersion { uid: "u".to_owned(), resource: self.changes.borrow().to_string() };
        let record = BlockRecord { block, content, is_terminating, version };
        self.records.borrow_mut().insert(block, record.clone());
        record
    }

    fn has(&self, name: &str) -> bool {
        self.records.borrow().contains_key(&block(name))
    }

    fn checked(&self, block: IpBlock) -> Result<(), ApiError> {
        if self.failing.borrow().contains(&block) { Err(ApiError::Refused("no".to_owned())) } else { Ok(()) }
    }

    fn of_version(&self, block: IpBlock, version: &RecordVersion) -> Result<BlockRecord, ApiError> {
        self.checked(block)?;
        let record = self.records.borrow().get(&block).cloned().ok_or(ApiError::Missing)?;
        if record.version == *version { Ok(record) } else { Err(ApiError::Changed) }
    }
}

impl BlockApi for &Cluster {
    async fn create(&self, block: IpBlock, content: &BlockContent) -> Result<BlockRecord, ApiError> {
        self.checked(block)?;
        if self.records.borrow().contains_key(&block) {
            return Err(ApiError::Exists);
        }
        Ok(self.put(block, content.clone(), false))
    }

    async fn get(&self, block: IpBlock) -> Result<Option<BlockRecord>, ApiError> {
        self.checked(block)?;
        Ok(self.records.borrow().get(&block).cloned())
    }

    async fn owned(&self, node: &BlockOwner) -> Result<Vec<BlockRecord>, ApiError> {
        Ok(self.records.borrow().values().filter(|record| record.is_of(node)).cloned().collect())
    }

    async fn children(&self, parent: IpBlock) -> Result<Vec<BlockRecord>, ApiError> {
        let records = self.records.borrow();
        Ok(records
            .values()
            .filter(|one| one.block != parent && one.block.parent() == parent)
            .cloned()
            .collect())
    }

    async fn terminate(&self, block: IpBlock, version: &RecordVersion) -> Result<BlockRecord, ApiError> {
        let record = self.of_version(block, version)?;
        Ok(self.put(block, record.content, true))
    }

    async fn remove(&self, block: IpBlock, version: &RecordVersion) -> Result<(), ApiError> {
        let record = self.of_version(block, version)?;
        assert!(record.is_terminating);
        self.records.borrow_mut().remove(&block);
        Ok(())
    }

    async fn renew(
        &self,
        block: IpBlock,
        version: &RecordVersion,
        owner: &BlockOwner,
    ) -> Result<BlockRecord, ApiError> {
        let record = self.of_version(block, version)?;
        Ok(self.put(block, BlockContent::Leased(owner.clone()), record.is_terminating))
    }
}

impl NodeBlocks for &Cluster {
    async fn offered(&self) -> Result<Vec<IpBlock>, StoreError> {
        Ok(self.offered.borrow().iter().copied().collect())
    }

    async fn offer(&self, block: IpBlock) -> Result<(), StoreError> {
        self.withdrawn.borrow_mut().remove(&block);
        self.offered.borrow_mut().insert(block);
        Ok(())
    }

    async fn withdrawn(&self) -> Result<Vec<IpBlock>, StoreError> {
        Ok(self.withdrawn.borrow().iter().copied().collect())
    }

    async fn forget(&self, block: IpBlock) -> Result<(), StoreError> {
        self.withdrawn.borrow_mut().remove(&block);
        Ok(())
    }

    async fn withdraw(&self, block: IpBlock) -> Result<Vec<IpAddr>, StoreError> {
        if self.offered.borrow_mut().remove(&block) {
            self.withdrawn.borrow_mut().insert(block);
        }
        Ok(self.claimed.borrow().iter().copied().filter(|address| block.contains(*address)).collect())
    }
}

/// Returns what a future yields that does not wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn block(name: &str) -> IpBlock {
    name.parse().unwrap()
}

fn owner(uid: &str) -> BlockOwner {
    BlockOwner { node: "node-a".to_owned(), uid: uid.to_owned() }
}

fn leases(cluster: &Cluster) -> BlockLeases<&Cluster, &Cluster> {
    BlockLeases::new(cluster, cluster, owner("a"))
}

const ONE: &str = "10.0.0.0-28";
const TWO: &str = "10.0.0.16-28";
const THREE: &str = "10.0.0.32-28";

/// A node with these three blocks. An address of the second is in use.
fn with_three(cluster: &Cluster) -> BlockLeases<&Cluster, &Cluster> {
    let mut leases = leases(cluster);
    for name in [ONE, TWO, THREE] {
        assert_eq!(now(leases.lease(block(name))).unwrap(), LeaseOutcome::Leased);
    }
    cluster.claimed.borrow_mut().insert("10.0.0.17".parse().unwrap());
    leases
}

#[test]
fn a_block_is_leased_by_one_node_in_the_size_of_its_parent() {
    let cluster = Cluster::default();
    let mut leases = leases(&cluster);
    assert_eq!(now(leases.lease(block(ONE))).unwrap(), LeaseOutcome::Leased);
    assert_eq!(now(leases.lease(block(ONE))).unwrap(), LeaseOutcome::Leased, "it has it already");
    let other = now(leases.lease(block("10.0.0.32-27"))).unwrap();
    assert_eq!(other, LeaseOutcome::OtherSize(16.try_into().unwrap()));
    assert_eq!(
        now(leases.lease(block("10.0.0.0-24"))).unwrap(),
        LeaseOutcome::OtherSize(16.try_into().unwrap())
    );
    let theirs = BlockOwner { node: "node-b".to_owned(), uid: "b".to_owned() };
    cluster.put(block(TWO), BlockContent::Leased(theirs.clone()), false);
    assert_eq!(now(leases.lease(block(TWO))).unwrap(), LeaseOutcome::Taken);
    cluster.put(block("10.0.1.0-24"), BlockContent::Leased(theirs), false);
    assert_eq!(now(leases.lease(block("10.0.1.0-28"))).unwrap(), LeaseOutcome::Taken, "as a whole");
    cluster.put(block("10.0.2.0-24"), BlockContent::Parent(16.try_into().unwrap()), true);
    assert_eq!(now(leases.lease(block("10.0.2.0-28"))).unwrap(), LeaseOutcome::Taken, "it is being deleted");
    // It was created by a request whose response was lost.
    cluster.put(block(THREE), BlockContent::Leased(owner("a")), false);
    assert_eq!(now(leases.lease(block(THREE))).unwrap(), LeaseOutcome::Leased);
    assert_eq!(leases.blocks().collect::<Vec<_>>(), [block(ONE), block(THREE)]);
    assert_eq!(*cluster.offered.borrow(), BTreeSet::from([block(ONE), block(THREE)]));
}

#[test]
fn a_block_is_released_unless_an_address_is_in_use() {
    let cluster = Cluster::default();
    let mut leases = with_three(&cluster);
    assert_eq!(now(leases.release(block(ONE))).unwrap(), ReleaseOutcome::Released);
    assert!(!cluster.has(ONE) && cluster.withdrawn.borrow().is_empty());
    let in_use = now(leases.release(block(TWO))).unwrap();
    assert_eq!(in_use, ReleaseOutcome::InUse(vec!["10.0.0.17".parse().unwrap()]));
    assert!(cluster.has(TWO) && cluster.offered.borrow().contains(&block(TWO)), "it is offered again");
    assert_eq!(leases.blocks().collect::<Vec<_>>(), [block(TWO), block(THREE)]);
    // A terminating one is not.
    cluster.put(block(TWO), BlockContent::Leased(owner("a")), true);
    now(leases.sync()).unwrap();
    assert!(matches!(now(leases.release(block(TWO))).unwrap(), ReleaseOutcome::InUse(_)));
    assert!(!cluster.offered.borrow().contains(&block(TWO)) && leases.blocks().count() == 1);
    assert_eq!(now(leases.lease(block(TWO))).unwrap(), LeaseOutcome::Taken);
    // A record that another node has by now stays.
    cluster.put(
        block(THREE),
        BlockContent::Leased(BlockOwner { node: "b".to_owned(), uid: "b".to_owned() }),
        false,
    );
    assert_eq!(now(leases.release(block(THREE))).unwrap(), ReleaseOutcome::Released);
    assert!(cluster.has(THREE));
}

#[test]
fn a_comparison_reports_what_is_lost_or_draining_and_continues_after_a_failure() {
    let cluster = Cluster::default();
    let mut leases = with_three(&cluster);
    assert_eq!(now(leases.sync()).unwrap(), SyncReport::default());
    let theirs = BlockOwner { node: "node-b".to_owned(), uid: "b".to_owned() };
    cluster.put(block(TWO), BlockContent::Leased(theirs.clone()), false);
    cluster.records.borrow_mut().remove(&block(ONE));
    cluster.put(block(THREE), BlockContent::Leased(owner("a")), true);
    cluster.claimed.borrow_mut().insert("10.0.0.33".parse().unwrap());
    cluster.failing.borrow_mut().insert(block(ONE));
    assert!(now(leases.sync()).is_err());
    assert_eq!(*cluster.offered.borrow(), BTreeSet::from([block(ONE)]), "the others were handled");
    cluster.failing.borrow_mut().clear();
    let report = now(leases.sync()).unwrap();
    let lost =
        LostBlock { block: block(TWO), in_use: vec!["10.0.0.17".parse().unwrap()], owner: Some(theirs) };
    assert_eq!(
        (report.lost, report.draining),
        (vec![lost], vec![(block(THREE), vec!["10.0.0.33".parse().unwrap()])])
    );
    assert!(
        cluster.offered.borrow().is_empty() && leases.blocks().count() == 0,
        "nobody has the first any more"
    );
    // As soon as the addresses are free, the record is removed, and the lost block is forgotten.
    cluster.claimed.borrow_mut().clear();
    assert_eq!(now(leases.sync()).unwrap(), SyncReport::default());
    assert!(!cluster.has(THREE) && cluster.has(TWO) && cluster.withdrawn.borrow().is_empty());
}

#[test]
fn a_block_in_use_whose_record_is_gone_is_leased_again() {
    let cluster = Cluster::default();
    let mut leases = with_three(&cluster);
    cluster.records.borrow_mut().remove(&block(TWO));
    assert_eq!(now(leases.sync()).unwrap(), SyncReport::default());
    assert!(cluster.has(TWO) && leases.blocks().count() == 3);
    // Another daemon of the node finds all of them, and offers one that was not.
    cluster.offered.borrow_mut().remove(&block(ONE));
    let mut other = self::leases(&cluster);
    assert_eq!(now(other.sync()).unwrap(), SyncReport::default());
    assert_eq!((other.blocks().count(), cluster.offered.borrow().len()), (3, 3));
}

#[test]
fn all_blocks_of_a_node_that_was_created_again_are_renewed() {
    let cluster = Cluster::default();
    let mut leases = with_three(&cluster);
    leases.set_owner(owner("later"));
    now(leases.sync()).unwrap();
    let renewed = BlockContent::Leased(owner("later"));
    let of_later = || cluster.records.borrow().values().filter(|record| record.content == renewed).count();
    assert_eq!(of_later(), 3);
    let version = |name: &str| cluster.records.borrow()[&block(name)].version.clone();
    let before = [ONE, TWO, THREE].map(version);
    cluster.failing.borrow_mut().insert(block(ONE));
    assert!(now(leases.renew_all()).is_err());
    let after = [ONE, TWO, THREE].map(version);
    assert_eq!(
        [0, 1, 2].map(|index| before[index] == after[index]),
        [true, false, false],
        "the others were renewed"
    );
    cluster.failing.borrow_mut().clear();
    now(leases.renew_all()).unwrap();
    assert_ne!(version(ONE), before[0]);
    assert_eq!(leases.blocks().count(), 3);
}

#[test]
fn only_a_terminating_parent_without_blocks_is_removed() {
    let cluster = Cluster::default();
    let parent = |is_terminating| {
        cluster.put(block("10.0.0.0-24"), BlockContent::Parent(16.try_into().unwrap()), is_terminating)
    };
    let remove = |record: &BlockRecord| now(remove_parent(&&cluster, record)).unwrap();
    assert!(!remove(&parent(false)));
    let child = cluster.put(block(ONE), BlockContent::Leased(owner("a")), true);
    assert!(!remove(&child) && !remove(&parent(true)), "it has a block");
    now(remove_record(&&cluster, &child)).unwrap();
    now(remove_record(&&cluster, &child)).unwrap();
    let current = parent(true);
    assert!(remove(&current) && !cluster.has("10.0.0.0-24"));
    assert!(remove(&current), "it is gone");
    let changed = cluster.put(block(ONE), BlockContent::Leased(owner("a")), false);
    cluster.put(block(ONE), BlockContent::Leased(owner("a")), false);
    assert_eq!(now(remove_record(&&cluster, &changed)), Err(ApiError::Changed));
    assert!(cluster.has(ONE));
}
