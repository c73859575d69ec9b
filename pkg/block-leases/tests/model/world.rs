//! The state of the cluster and of its nodes, and the requests that are under way.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    net::IpAddr,
    rc::Rc,
    task::Poll,
};

use block_leases::{ApiError, BlockApi, BlockContent, BlockOwner, BlockRecord, NodeBlocks, RecordVersion};
use ipam::{IpBlock, StoreError};

use crate::search::Choices;

/// All records.
pub(crate) type Records = BTreeMap<IpBlock, BlockRecord>;

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) records: Records,
    /// What the records were after each change, for lists that are outdated.
    pub(crate) history: Vec<Records>,
    pub(crate) changes: usize,
    pub(crate) machines: Vec<Machine>,
    /// Requests that will be executed after their sender has given up.
    pub(crate) delayed: Vec<Request>,
    /// How many more requests go wrong.
    pub(crate) faults: usize,
    pub(crate) choices: Choices,
    /// What has happened, if it is recorded.
    pub(crate) trace: Option<Vec<String>>,
    /// The first addresses that two nodes used.
    pub(crate) used_twice: Option<Vec<IpAddr>>,
}

/// A node. What it has is lost when it is switched off.
#[derive(Debug, Default, Clone)]
pub(crate) struct Machine {
    pub(crate) offered: BTreeSet<IpBlock>,
    pub(crate) withdrawn: BTreeSet<IpBlock>,
    pub(crate) claimed: BTreeSet<IpAddr>,
    /// The addresses that pods have.
    pub(crate) used: BTreeSet<IpAddr>,
    pub(crate) is_off: bool,
}

/// A request that changes a record.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Create(IpBlock, BlockContent),
    Terminate(IpBlock, RecordVersion),
    Remove(IpBlock, RecordVersion),
    Renew(IpBlock, RecordVersion, BlockOwner),
}

impl World {
    pub(crate) fn execute(&mut self, request: &Request) -> Result<BlockRecord, ApiError> {
        let result = self.attempt(request);
        if result.is_ok() {
            self.history.push(self.records.clone());
        }
        result
    }

    fn attempt(&mut self, request: &Request) -> Result<BlockRecord, ApiError> {
        self.changes += 1;
        let resource = self.changes.to_string();
        let record = match request {
            Request::Create(block, _) if self.records.contains_key(block) => return Err(ApiError::Exists),
            Request::Create(block, content) => BlockRecord {
                block: *block,
                content: content.clone(),
                is_terminating: false,
                version: RecordVersion { uid: resource.clone(), resource },
            },
            Request::Terminate(block, version) => {
                let mut record = self.existing(*block, version)?;
                record.version.resource = resource;
                BlockRecord { is_terminating: true, ..record }
            }
            Request::Renew(block, version, owner) => {
                let mut record = self.existing(*block, version)?;
                record.version.resource = resource;
                BlockRecord { content: BlockContent::Leased(owner.clone()), ..record }
            }
            Request::Remove(block, version) => {
                let record = self.existing(*block, version)?;
                assert!(record.is_terminating, "only the finalizer of a terminating record is removed");
                self.records.remove(block);
                return Ok(record);
            }
        };
        self.records.insert(record.block, record.clone());
        Ok(record)
    }

    fn existing(&self, block: IpBlock, version: &RecordVersion) -> Result<BlockRecord, ApiError> {
        let record = self.records.get(&block).ok_or(ApiError::Missing)?;
        if record.version == *version { Ok(record.clone()) } else { Err(ApiError::Changed) }
    }

    /// Records what has happened, and whether an address is used by two nodes since.
    pub(crate) fn record(&mut self, event: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(event());
        }
        for (index, machine) in self.machines.iter().enumerate() {
            for other in &self.machines[..index] {
                if self.used_twice.is_none() && !machine.used.is_disjoint(&other.used) {
                    self.used_twice = Some(machine.used.intersection(&other.used).copied().collect());
                }
            }
        }
    }
}

/// A part of the model as one actor sees it.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) world: Rc<RefCell<World>>,
    /// The name of the actor, for the trace.
    pub(crate) actor: &'static str,
    /// The machine on which it runs.
    pub(crate) machine: usize,
}

impl View {
    /// Lets others continue, then changes the world.
    pub(crate) async fn step<T: std::fmt::Debug>(
        &self,
        what: impl std::fmt::Debug,
        change: impl FnOnce(&mut World) -> T,
    ) -> T {
        let mut has_yielded = false;
        poll_fn(|_| match std::mem::replace(&mut has_yielded, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        let mut world = self.world.borrow_mut();
        let result = change(&mut world);
        world.record(|| format!("{}: {what:?} -> {result:?}", self.actor));
        result
    }

    /// Changes the machine.
    pub(crate) async fn local<T: std::fmt::Debug>(
        &self,
        what: impl std::fmt::Debug,
        change: impl FnOnce(&mut Machine) -> T,
    ) -> T {
        self.step(what, |world| change(&mut world.machines[self.machine])).await
    }

    async fn write(&self, request: Request) -> Result<BlockRecord, ApiError> {
        self.step(request.clone(), |world| {
            let fault = if world.faults > 0 { world.choices.choose_rarely(4) } else { 0 };
            world.faults -= usize::from(fault > 0);
            let lost = Err(ApiError::Unknown("lost".to_owned()));
            match fault {
                0 => world.execute(&request),
                1 => lost,
                2 => world.execute(&request).and(lost),
                _ => {
                    world.delayed.push(request);
                    lost
                }
            }
        })
        .await
    }

    async fn read<T: std::fmt::Debug>(
        &self,
        what: impl std::fmt::Debug,
        value: impl FnOnce(&Records) -> T,
    ) -> Result<T, ApiError> {
        self.step(what, |world| {
            let is_lost = world.faults > 0 && world.choices.choose_rarely(2) == 1;
            world.faults -= usize::from(is_lost);
            if is_lost { Err(ApiError::Unknown("lost".to_owned())) } else { Ok(value(&world.records)) }
        })
        .await
    }
}

impl BlockApi for View {
    async fn create(&self, block: IpBlock, content: &BlockContent) -> Result<BlockRecord, ApiError> {
        self.write(Request::Create(block, content.clone())).await
    }

    async fn get(&self, block: IpBlock) -> Result<Option<BlockRecord>, ApiError> {
        self.read(("get", block), |records| records.get(&block).cloned()).await
    }

    async fn owned(&self, node: &BlockOwner) -> Result<Vec<BlockRecord>, ApiError> {
        self.step(("list", &node.uid), |world| {
            // The list is of now, or of any earlier time.
            let outdated =
                if world.faults > 0 { world.choices.choose_rarely(world.history.len() + 1) } else { 0 };
            world.faults -= usize::from(outdated > 0);
            let records = match outdated {
                0 => &world.records,
                age => &world.history[world.history.len() - age],
            };
            Ok(records.values().filter(|record| record.is_of(node)).cloned().collect())
        })
        .await
    }

    async fn children(&self, parent: IpBlock) -> Result<Vec<BlockRecord>, ApiError> {
        let is_child = |record: &&BlockRecord| record.block.parent() == parent && record.block != parent;
        self.read(("list", parent), |records| records.values().filter(is_child).cloned().collect()).await
    }

    async fn terminate(&self, block: IpBlock, version: &RecordVersion) -> Result<BlockRecord, ApiError> {
        self.write(Request::Terminate(block, version.clone())).await
    }

    async fn remove(&self, block: IpBlock, version: &RecordVersion) -> Result<(), ApiError> {
        self.write(Request::Remove(block, version.clone())).await.map(drop)
    }

    async fn renew(
        &self,
        block: IpBlock,
        version: &RecordVersion,
        owner: &BlockOwner,
    ) -> Result<BlockRecord, ApiError> {
        self.write(Request::Renew(block, version.clone(), owner.clone())).await
    }
}

impl NodeBlocks for View {
    async fn offered(&self) -> Result<Vec<IpBlock>, StoreError> {
        Ok(self.local("list offered", |machine| machine.offered.iter().copied().collect()).await)
    }

    async fn offer(&self, block: IpBlock) -> Result<(), StoreError> {
        self.local(("offer", block), |machine| machine.offered.insert(block)).await;
        self.forget(block).await
    }

    async fn withdrawn(&self) -> Result<Vec<IpBlock>, StoreError> {
        Ok(self.local("list withdrawn", |machine| machine.withdrawn.iter().copied().collect()).await)
    }

    async fn forget(&self, block: IpBlock) -> Result<(), StoreError> {
        self.local(("forget", block), |machine| machine.withdrawn.remove(&block)).await;
        Ok(())
    }

    async fn withdraw(&self, block: IpBlock) -> Result<Vec<IpAddr>, StoreError> {
        let move_away =
            |machine: &mut Machine| machine.offered.remove(&block) && machine.withdrawn.insert(block);
        self.local(("withdraw", block), move_away).await;
        let claimed = |machine: &mut Machine| {
            machine.claimed.iter().filter(|address| block.contains(**address)).copied().collect()
        };
        Ok(self.local(("claimed in", block), claimed).await)
    }
}
