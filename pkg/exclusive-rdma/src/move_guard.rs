//! The lock for moving an RDMA device, which also keeps the kernel from moving one.

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

/// How long a call waits for the lock. A card's firmware may need a second for a device, and a node may have a hundred.
const MOVE_LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// How long to wait for the next one of the devices that are returning to the host. A process that holds a namespace open
/// may never close it: then its devices return later, and are not waited for.
const NEXT_RETURN_TIMEOUT: Duration = Duration::from_secs(5);

/// The part of the timeout that is reserved for the lock itself, after the wait for returning devices.
const LOCK_RESERVE: Duration = Duration::from_secs(10);

/// The interval of checks for returning devices.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Keeps all others from moving RDMA devices until it is dropped: other calls of the plugins, regardless of their state
/// directory; programs that take the same lock; and the kernel.
///
/// # Kernel
/// When a namespace is deleted, the kernel moves its devices to the initial namespace, without any lock
/// (`rdma_dev_exit_net`). So the namespaces of all pods that have a device are held open, and none of them can be deleted.
/// Devices of namespaces that are already being deleted are waited for.
#[derive(Debug)]
#[must_use]
pub(crate) struct MoveGuard {
    _lock: MoveLock,
    _pods: Vec<NetNs>,
}

impl MoveGuard {
    /// Waits for the lock to move a device of `function`.
    ///
    /// # Errors
    /// If other processes hold it for the whole timeout; the error contains the holder.
    pub(crate) fn acquire(node: &Node, function: &Function) -> Result<Self, Error> {
        let deadline = node.budget.until("the lock for moving RDMA devices", MOVE_LOCK_TIMEOUT);
        let last = deadline.at().checked_sub(LOCK_RESERVE).unwrap_or(deadline.at());
        let mut awaited = HashSet::new();
        let mut until = last;
        loop {
            let lock = MoveLock::acquire(&node.sysfs, deadline.at())?;
            let (pods, returning) = pods(node, function);
            let has_one_returned = !awaited.is_subset(&returning);
            if awaited.is_empty() || has_one_returned {
                until = last.min(Instant::now() + NEXT_RETURN_TIMEOUT);
            }
            if returning.is_empty() || Instant::now() >= until {
                return Ok(Self { _lock: lock, _pods: pods });
            }
            drop(lock);
            if awaited.is_empty() {
                info!(functions = ?returning, "waiting for RDMA devices to return to the host; their pods are gone");
            }
            while returning.iter().all(|function| is_returning(node, function)) && Instant::now() < until {
                thread::sleep(POLL_INTERVAL);
            }
            awaited = returning;
        }
    }
}

/// Returns the namespaces of the pods that have a device, and the functions whose device is returning from a pod that is
/// gone, except `own`, whose device this process returns.
fn pods(node: &Node, own: &Function) -> (Vec<NetNs>, HashSet<Function>) {
    let (mut pods, mut returning) = (Vec::new(), HashSet::new());
    let (claims, _) = claim::list(&node.state, ClaimKind::Rdma).unwrap_or_else(|error| {
        warn!(%error, "cannot read the claims of RDMA devices");
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

/// Whether a device of the function is returning to the host; `false` if that cannot be read.
fn is_returning(node: &Node, function: &Function) -> bool {
    rdma::is_moving(&node.sysfs, function).unwrap_or(false)
}
