//! What is known about the addresses for which plugins wait, and the answers that follow from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::{
    leasing::{AddressOutcome, PoolLeases, PoolOutcome},
    pool_directory::{ClusterPool, PoolFiles},
    socket::{AgentAnswer, BlockRequest, FAILURE_DELAY, Waiting},
};

/// What answers follow from.
#[derive(Debug)]
pub(crate) struct BlockAvailability<'a> {
    pub(crate) pools: &'a PoolFiles,
    pub(crate) leases: &'a PoolLeases,
    /// The addresses that are reserved for certain pods.
    pub(crate) reserved: &'a BTreeSet<IpAddr>,
    /// Why nothing can be leased at present.
    pub(crate) failure: Option<&'a str>,
    /// The states of pools, read once for all requests.
    states: BTreeMap<String, PoolOutcome>,
}

impl<'a> BlockAvailability<'a> {
    pub(crate) fn new(
        pools: &'a PoolFiles,
        leases: &'a PoolLeases,
        reserved: &'a BTreeSet<IpAddr>,
        failure: Option<&'a str>,
    ) -> Self {
        Self { pools, leases, reserved, failure, states: BTreeMap::new() }
    }

    /// Returns the answer to a request; `None` if it has to wait.
    pub(crate) fn answer_to(&mut self, waiting: &Waiting<BlockRequest>) -> Option<AgentAnswer> {
        match waiting.request.address {
            Some(address) => self.about_address(waiting, address),
            None => self.about_pools(waiting),
        }
    }

    fn about_address(&self, waiting: &Waiting<BlockRequest>, address: IpAddr) -> Option<AgentAnswer> {
        if pool_with(self.pools, self.reserved, &waiting.request, address).is_none() {
            return Some(AgentAnswer::refused(format!("no IPPool of the cluster contains {address}")));
        }
        match self.leases.outcome_of(address) {
            Some(AddressOutcome::Leased) => Some(AgentAnswer::default()),
            // The node on which the pod was before is about to release the block of the address.
            Some(AddressOutcome::Taken { problem, is_alone: true }) if self.reserved.contains(&address) => {
                (waiting.since.elapsed() >= FAILURE_DELAY).then(|| AgentAnswer::unavailable(problem))
            }
            Some(AddressOutcome::Taken { problem, .. }) => Some(AgentAnswer::refused(problem)),
            None => self.failed(waiting),
        }
    }

    /// The first pool that is not exhausted is used. Later ones are for the case that it is, or that it cannot be known.
    fn about_pools(&mut self, waiting: &Waiting<BlockRequest>) -> Option<AgentAnswer> {
        let mut problems = Vec::new();
        let names = &waiting.request.pools;
        for (index, name) in names.iter().enumerate() {
            let pool = match usable_pool(self.pools, name) {
                Ok(pool) => pool,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            match self.state_of(pool) {
                PoolOutcome::HasRoom => return Some(AgentAnswer::of_pool(name)),
                PoolOutcome::Exhausted(problem) => problems.push(problem),
                PoolOutcome::Unknown if self.failure.is_some() || self.leases.was_exhausted(pool) => {
                    let later = names.get(index + 1..).unwrap_or_default();
                    let with_room = later.iter().find(|name| self.has_room(name));
                    return with_room.map(|name| AgentAnswer::of_pool(name)).or_else(|| self.failed(waiting));
                }
                PoolOutcome::Unknown => return self.failed(waiting),
            }
        }
        Some(AgentAnswer::refused(problems.join("; ")))
    }

    fn has_room(&mut self, name: &str) -> bool {
        usable_pool(self.pools, name).is_ok_and(|pool| self.state_of(pool) == PoolOutcome::HasRoom)
    }

    fn state_of(&mut self, pool: &ClusterPool) -> PoolOutcome {
        let name = pool.pool.name.to_string();
        self.states.entry(name).or_insert_with(|| self.leases.state(pool)).clone()
    }

    /// Returns the answer to a request that has waited for long.
    pub(crate) fn failed(&self, waiting: &Waiting<BlockRequest>) -> Option<AgentAnswer> {
        let problem = self.failure.filter(|_| waiting.since.elapsed() >= FAILURE_DELAY)?;
        Some(AgentAnswer::unavailable(problem.to_owned()))
    }
}

/// Returns the pool for a request of an address. A reserved one is in the ranges of no pool.
pub(crate) fn pool_with<'p>(
    pools: &'p PoolFiles,
    reserved: &BTreeSet<IpAddr>,
    request: &BlockRequest,
    address: IpAddr,
) -> Option<&'p ClusterPool> {
    let contains = |pool: &&ClusterPool| pool.pool.ranges.contains(address);
    let named = || request.pools.iter().find_map(|name| pools.get(name));
    let can_have = |pool: &&ClusterPool| pool.is_in_use() && pool.before_reservations.contains(address);
    let of_pod = || named().filter(can_have).filter(|_| reserved.contains(&address));
    pools.pools.iter().find(contains).or_else(of_pod)
}

fn usable_pool<'p>(pools: &'p PoolFiles, name: &str) -> Result<&'p ClusterPool, String> {
    match pools.get(name) {
        None => Err(format!("IPPool {name} does not exist in the cluster")),
        Some(pool) if !pool.is_in_use() => Err(format!("IPPool {name} is disabled or being deleted")),
        Some(pool) => Ok(pool),
    }
}
