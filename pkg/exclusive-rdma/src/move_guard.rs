//! The turn to move an RDMA device, while the kernel moves none.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use netns::NetNs;
use plugin_runtime::{Error, Node};
use rdma::MoveLock;
use state::claim::{self, ClaimKind};
use sysfs::Function;
use tracing::{info, warn};

/// How long a call waits for its turn. A card's firmware may need a second for a device, and a node may have a hundred.
const MOVE_LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// How long it may take until one more device of those that are on their way home is there. A process that still holds
/// the namespace may hold it for ever: then they come home some other time.
const NEXT_RETURN_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of the time for a turn is kept for the lock, after all that waiting.
const LOCK_RESERVE: Duration = Duration::from_secs(10);

/// How often it is looked whether one is there.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Nobody moves an RDMA device as long as this value lives: no other call of ours, whatever its state directory; no
/// program that takes the same lock; and not the kernel.
///
/// # Kernel
/// It moves the devices of a namespace that dies home, one after another and asking nobody (`rdma_dev_exit_net`).
/// So the namespaces of all pods that have a device are held open meanwhile: none of them can die. Those that are
/// dying already are waited for.
#[derive(Debug)]
#[must_use]
pub(crate) struct MoveGuard {
    _lock: MoveLock,
    _pods: Vec<NetNs>,
}

impl MoveGuard {
    /// Waits for the turn to move a device of `function`.
    ///
    /// # Errors
    /// That others have had it all the time, and who has it.
    pub(crate) fn acquire(node: &Node, function: &Function) -> Result<Self, Error> {
        let deadline = node.budget.until("the turn to move an RDMA device", MOVE_LOCK_TIMEOUT);
        let last = deadline.at().checked_sub(LOCK_RESERVE).unwrap_or(deadline.at());
        let mut awaited = HashSet::new();
        let mut until = last;
        loop {
            let lock = MoveLock::acquire(&node.sysfs, deadline.at())?;
            let (pods, returning) = pods(node, function);
            let has_one_come = !awaited.is_subset(&returning);
            if awaited.is_empty() || has_one_come {
                until = last.min(Instant::now() + NEXT_RETURN_TIMEOUT);
            }
            if returning.is_empty() || Instant::now() >= until {
                return Ok(Self { _lock: lock, _pods: pods });
            }
            drop(lock);
            if awaited.is_empty() {
                info!(functions = ?returning, "waiting for RDMA devices whose pods are gone to come home");
            }
            while returning.iter().all(|function| is_returning(node, function)) && Instant::now() < until {
                thread::sleep(POLL_INTERVAL);
            }
            awaited = returning;
        }
    }
}

/// The namespaces of the pods that have a device, and the functions whose device is on its way home from one that is gone,
/// but for `own`, whose device this process brings home.
fn pods(node: &Node, own: &Function) -> (Vec<NetNs>, HashSet<Function>) {
    let (mut pods, mut returning) = (Vec::new(), HashSet::new());
    let (claims, _) = claim::list(&node.state, ClaimKind::Rdma).unwrap_or_else(|error| {
        warn!(%error, "whose RDMA devices are where cannot be read");
        Default::default()
    });
    for claim in claims {
        let (_, function) = claim.device();
        match claim.namespace() {
            Ok(Some(pod)) => pods.push(pod),
            Ok(None) if function != own && is_returning(node, function) => {
                returning.insert(function.clone());
            }
            _ => {}
        }
    }
    (pods, returning)
}

/// Whether a device of the function is. Where that cannot be read, it is not waited for.
fn is_returning(node: &Node, function: &Function) -> bool {
    rdma::is_moving(&node.sysfs, function).unwrap_or(false)
}
