//! The network namespace of a pod that the Go plugins recorded.

use std::path::Path;

use netns::NetNs;

/// Opens the network namespace at a path. `None` if there is none, or if it is the caller's: the path was then reused.
pub fn open_if_alive(path: &Path) -> Option<NetNs> {
    let netns = NetNs::open(path).ok().filter(|_| path.is_absolute())?;
    let own = NetNs::current().ok()?;
    (netns.id() != own.id()).then_some(netns)
}
