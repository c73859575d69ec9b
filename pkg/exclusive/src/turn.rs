//! The turn to move an RDMA device, while the kernel moves none.

use std::time::{Duration, Instant};

use netns::NetNs;
use plugin::{
    Error, Node,
    claim::{self, Part},
};
use rdma::MoveLock;
use sysfs::Function;
use tracing::{info, warn};

/// How long a call waits for its turn. A card's firmware may need a second for a device, and a node may have a hundred.
const TURN: Duration = Duration::from_secs(60);

/// How long a device may be on its way home from a namespace that is dying. A process that still holds the namespace
/// may hold it for ever: then it comes home some other time.
const SETTLING: Duration = Duration::from_secs(1);

/// Nobody moves an RDMA device as long as this value lives: no other call of ours, whatever its state directory; no
/// program that takes the same lock; and not the kernel.
///
/// # Kernel
/// It moves the devices of a namespace that dies home, one after another and asking nobody (`rdma_dev_exit_net`).
/// So the namespaces of all pods that have a device are held open meanwhile: none of them can die. Those that are
/// dying already are waited for.
#[derive(Debug)]
#[must_use]
pub(crate) struct Turn {
    _lock: MoveLock,
    _pods: Vec<NetNs>,
}

impl Turn {
    /// Waits for the turn.
    ///
    /// # Errors
    /// That others have had it all the time, and who has it.
    pub(crate) fn take(node: &Node) -> Result<Self, Error> {
        let deadline = node.budget.until("the turn to move an RDMA device", TURN);
        let settled = deadline.at().min(Instant::now() + SETTLING);
        loop {
            let lock = MoveLock::take(&node.sysfs, deadline.at())?;
            let (pods, dying) = pods(node);
            match dying {
                Some(function) if settled > Instant::now() => {
                    drop(lock);
                    info!(%function, "waiting for an RDMA device whose pod is gone to come home");
                    let mut socket = rdma::open(&node.sysfs)?;
                    let _ = rdma::wait_for_return(&mut socket, &node.sysfs, &function, settled);
                }
                _ => return Ok(Self { _lock: lock, _pods: pods }),
            }
        }
    }
}

/// The namespaces of the pods that have a device, and a device whose pod is gone and that is not at home.
fn pods(node: &Node) -> (Vec<NetNs>, Option<Function>) {
    let (mut pods, mut dying) = (Vec::new(), None);
    let (claims, _) = claim::list(&node.state, Part::Rdma).unwrap_or_else(|error| {
        warn!(%error, "whose RDMA devices are where cannot be read");
        Default::default()
    });
    for claim in claims {
        let (_, function) = claim.device();
        match claim.namespace() {
            Ok(Some(pod)) => pods.push(pod),
            Ok(None) if is_away(node, function) => dying = Some(function.clone()),
            _ => {}
        }
    }
    (pods, dying)
}

fn is_away(node: &Node, function: &Function) -> bool {
    let count = |names: Result<Vec<String>, _>| names.map_or(0, |names| names.len());
    count(node.sysfs.rdma_devices(function)) < count(node.sysfs.uverbs(function))
}
