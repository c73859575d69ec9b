//! The lock for moving an RDMA device, which also keeps the kernel from moving one.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use netns::{NetNs, NetNsId};
use plugin_runtime::{Error, Node};
use rdma::MoveLock;
use state::claim::{self, ClaimKind, DeviceClaim};
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
        Self::acquire_with(node, Some(function))
    }

    /// Waits for the lock to move any device of the node that is on the host.
    ///
    /// # Errors
    /// As [`MoveGuard::acquire`].
    pub(crate) fn acquire_for_node(node: &Node) -> Result<Self, Error> {
        Self::acquire_with(node, None)
    }

    fn acquire_with(node: &Node, own: Option<&Function>) -> Result<Self, Error> {
        let deadline = node.budget.until("the lock for moving RDMA devices", MOVE_LOCK_TIMEOUT);
        let last = deadline.at().checked_sub(LOCK_RESERVE).unwrap_or(deadline.at());
        let (mut awaited, mut sought) = (Vec::new(), Vec::new());
        let mut until = last;
        loop {
            let lock = MoveLock::acquire(&node.sysfs, deadline.at())?;
            let Pods { mut held, without_path, returning } = Pods::find(node, &sought, own);
            if !without_path.is_empty() {
                // That takes long, and others can move their devices meanwhile.
                drop(lock);
                sought.extend(without_path.into_iter().map(|id| SoughtNetNs::find(Path::new("/"), id, last)));
                continue;
            }
            let has_one_returned = awaited.iter().any(|claim| !returning.contains(claim));
            if awaited.is_empty() || has_one_returned {
                until = last.min(Instant::now() + NEXT_RETURN_TIMEOUT);
            }
            if returning.is_empty() || Instant::now() >= until {
                record_waits(node, &returning);
                held.extend(sought.into_iter().filter_map(|sought| sought.held));
                return Ok(Self { _lock: lock, _pods: held });
            }
            drop(lock);
            if awaited.is_empty() {
                let functions: Vec<_> = returning.iter().map(|claim| claim.device().1).collect();
                info!(?functions, "waiting for RDMA devices to return to the host; their pods are gone");
            }
            while returning.iter().all(|claim| is_returning(node, claim)) && Instant::now() < until {
                thread::sleep(POLL_INTERVAL);
            }
            awaited = returning;
        }
    }
}

/// A namespace that was sought among all processes, because its path does not lead to it.
struct SoughtNetNs {
    id: NetNsId,
    /// The open namespace, if it still exists.
    held: Option<NetNs>,
}

impl SoughtNetNs {
    /// Seeks it, unless the time for that is over: reading all processes can take long.
    fn find(root: &Path, id: NetNsId, until: Instant) -> Self {
        let is_late = Instant::now() >= until;
        let found = if is_late { Ok(None) } else { NetNs::find_held(root, id) };
        let held = found.unwrap_or_else(|error| {
            warn!(%error, "the kernel may return the RDMA device of a pod while another one is moved");
            None
        });
        Self { id, held }
    }
}

/// The pods that have an RDMA device.
struct Pods {
    /// The namespaces of those that are alive, at their paths.
    held: Vec<NetNs>,
    /// The namespaces that are not at their paths, and were not sought yet.
    without_path: Vec<NetNsId>,
    /// The claims of those that are gone, whose device is returning.
    returning: Vec<DeviceClaim>,
}

impl Pods {
    /// Finds all of them. The device of `own` does not count as returning: this process returns it.
    fn find(node: &Node, sought: &[SoughtNetNs], own: Option<&Function>) -> Self {
        let (claims, _) = claim::list(&node.state, ClaimKind::Rdma).unwrap_or_else(|error| {
            warn!(%error, "cannot read the claims of RDMA devices");
            Default::default()
        });
        let mut pods = Self { held: Vec::new(), without_path: Vec::new(), returning: Vec::new() };
        for claim in claims {
            match claim.namespace() {
                Ok(Some(pod)) => pods.held.push(pod),
                Ok(None) => pods.add_without_path(node, claim, sought, own),
                Err(_) => {}
            }
        }
        pods
    }

    fn add_without_path(
        &mut self,
        node: &Node,
        claim: DeviceClaim,
        sought: &[SoughtNetNs],
        own: Option<&Function>,
    ) {
        let netns = claim.pod().netns;
        match netns.map(|id| (id, sought.iter().find(|sought| sought.id.is(id)))) {
            // One pod can have several devices.
            Some((id, None)) if self.without_path.iter().any(|other| other.is(id)) => {}
            Some((id, None)) => self.without_path.push(id),
            Some((_, Some(SoughtNetNs { held: Some(_), .. }))) => {}
            _ if Some(claim.device().1) != own && is_returning(node, &claim) => self.returning.push(claim),
            _ => {}
        }
    }
}

/// Whether the device of a pod that is gone is returning to the host; `false` if that cannot be read, or if a call has
/// waited for it in vain.
fn is_returning(node: &Node, claim: &DeviceClaim) -> bool {
    let is_moving = rdma::is_moving(&node.sysfs, claim.device().1).unwrap_or(false);
    is_moving && !claim.was_awaited(&node.state).unwrap_or(false)
}

/// Keeps later calls from waiting for devices that did not return.
fn record_waits(node: &Node, claims: &[DeviceClaim]) {
    for claim in claims {
        warn!(function = %claim.device().1, owner = %claim.owner(), "the RDMA device of a pod that is gone did not return");
        if let Err(error) = claim.record_wait(&node.state) {
            warn!(%error, "the next call waits for it again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::PathBuf};

    use state::StateDir;
    use sysfs::Sysfs;

    use super::*;

    #[test]
    fn every_pod_with_a_device_is_held_and_every_other_returning_device_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut node = Node::new(StateDir::at(dir.path().join("state")), Vec::new(), None);
        node.sysfs = Sysfs::at(dir.path());
        let alive = (PathBuf::from("/proc/thread-self/ns/net"), NetNs::current().unwrap().id());
        let gone = (PathBuf::from("/gone"), NetNsId::new(4, 1));
        for (number, (path, id), has_driver) in [
            (1, &alive, true),
            (2, &gone, true),
            (3, &gone, false),
            (4, &gone, true),
            (5, &alive, true),
            (6, &gone, true),
        ] {
            let (owner, function) = (format!("c{number}@net1"), format!("0000:af:00.{number}"));
            let device = dir.path().join("bus/pci/devices").join(&function);
            fs::create_dir_all(&device).unwrap();
            if has_driver {
                symlink("../../drivers/mlx5_core", device.join("driver")).unwrap();
            }
            let (owner, function) = (owner.parse().unwrap(), function.parse().unwrap());
            let claim = DeviceClaim::of(ClaimKind::Rdma, function, &owner, path.clone(), *id).unwrap();
            claim.acquire(&node.state, &|| node.claims_lock(), |_| Ok::<_, Error>(true)).unwrap();
        }
        let own = "0000:af:00.6".parse().unwrap();
        let look = |sought: &[SoughtNetNs]| Pods::find(&node, sought, Some(&own));
        let elsewhere = look(&[]).without_path;
        assert_eq!(elsewhere, [gone.1], "something may hold it where its path does not lead");
        let still_there = SoughtNetNs { id: gone.1, held: Some(NetNs::current().unwrap()) };
        assert!(look(&[still_there]).returning.is_empty());
        let find = || look(&[SoughtNetNs::find(dir.path(), gone.1, Instant::now())]);
        let functions = |claims: &[DeviceClaim]| {
            let mut functions: Vec<_> = claims.iter().map(|claim| claim.device().1.to_string()).collect();
            functions.sort();
            functions
        };
        let Pods { held, returning, .. } = find();
        assert_eq!(held.len(), 2);
        assert_eq!(functions(&returning), ["0000:af:00.2", "0000:af:00.4"]);
        // The first call waits, and the next ones do not, until the device has another owner.
        let (second, fourth) = (&returning[0], &returning[1]);
        record_waits(&node, std::slice::from_ref(second));
        assert_eq!(functions(&find().returning), functions(std::slice::from_ref(fourth)));
        second.revert(&node.state, Instant::now()).unwrap();
        second.acquire(&node.state, &|| node.claims_lock(), |_| Ok::<_, Error>(true)).unwrap();
        assert_eq!(find().returning.len(), 2);
    }
}
