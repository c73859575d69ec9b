//! Which devices a container should get.
//!
//! Of all sets of devices of the requested size, the best has, in this order:
//! 1. the fewest NUMA nodes,
//! 2. its devices on as many PFs as possible ([`PfPolicy::Spread`]), or on as few ([`PfPolicy::Pack`]),
//! 3. devices that are close to a GPU,
//! 4. devices that are close to each other,
//! 5. PFs with many free devices, or with few for [`PfPolicy::Pack`].
//!
//! The PCI hierarchy is a tree, and all but the first are sums over its nodes. So the best set is found from the leaves up,
//! without enumerating all sets.

mod candidate;
mod pci_tree;

use std::collections::{BTreeMap, BTreeSet};

use crate::PciPath;
pub use candidate::{Candidate, PfPolicy};
use pci_tree::PciTree;

/// A request that no set of devices fulfils.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// A device that must be included is not available.
    #[error("device {0} must be included and is not available")]
    Device(String),
    /// There are too few devices.
    #[error("{size} devices are requested, {available} are available")]
    TooFew {
        /// The number that is requested.
        size: usize,
        /// The number that is available.
        available: usize,
    },
    /// More devices must be included than are requested.
    #[error("{size} devices are requested, and {included} must be included")]
    TooMany {
        /// The number that is requested.
        size: usize,
        /// The number that must be included.
        included: usize,
    },
}

/// Returns the IDs of the best `size` devices, sorted, with all that must be included.
///
/// # Errors
/// [`Unavailable`].
pub fn choose(
    available: &[Candidate],
    included: &BTreeSet<String>,
    size: usize,
    policy: PfPolicy,
    gpus: &[PciPath],
) -> Result<Vec<String>, Unavailable> {
    check(available, included, size)?;
    let mut nodes: BTreeMap<Option<u32>, usize> = BTreeMap::new();
    available.iter().for_each(|device| *nodes.entry(device.numa_node).or_default() += 1);
    let required: BTreeSet<_> = available
        .iter()
        .filter(|device| included.contains(&device.id))
        .map(|device| device.numa_node)
        .collect();
    for sets in numa_sets(&nodes, &required, size) {
        let best = sets.iter().filter_map(|nodes| {
            let devices = available.iter().filter(|device| nodes.contains(&device.numa_node));
            PciTree::of(devices, included, policy, gpus).best(size)
        });
        // The first of equal sets.
        if let Some(best) = best.reduce(|best, other| if other.score > best.score { other } else { best }) {
            return Ok(best.ids());
        }
    }
    Err(Unavailable::TooFew { size, available: available.len() })
}

fn check(available: &[Candidate], included: &BTreeSet<String>, size: usize) -> Result<(), Unavailable> {
    let missing = included.iter().find(|id| !available.iter().any(|device| device.id == **id));
    if let Some(id) = missing {
        return Err(Unavailable::Device(id.clone()));
    }
    if size > available.len() {
        return Err(Unavailable::TooFew { size, available: available.len() });
    }
    if included.len() > size {
        return Err(Unavailable::TooMany { size, included: included.len() });
    }
    Ok(())
}

/// Maximum number of NUMA nodes whose combinations are tried.
const MAX_NUMA_NODES: usize = 12;

/// Returns the sets of NUMA nodes that have enough devices, by the number of nodes.
fn numa_sets(
    nodes: &BTreeMap<Option<u32>, usize>,
    required: &BTreeSet<Option<u32>>,
    size: usize,
) -> Vec<Vec<BTreeSet<Option<u32>>>> {
    if nodes.len() > MAX_NUMA_NODES {
        return vec![vec![nodes.keys().copied().collect()]];
    }
    let mut sets = vec![Vec::new(); nodes.len() + 1];
    for combination in 0..1_u32 << nodes.len() {
        let chosen = nodes.iter().enumerate().filter(|(bit, _)| combination >> bit & 1 == 1);
        let (set, devices) = chosen.fold((BTreeSet::new(), 0), |(mut set, sum), (_, (node, devices))| {
            set.insert(*node);
            (set, sum + devices)
        });
        if devices >= size && required.is_subset(&set) {
            sets[set.len()].push(set);
        }
    }
    sets
}

#[cfg(test)]
mod tests;
