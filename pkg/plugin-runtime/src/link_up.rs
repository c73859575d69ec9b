//! Setting the link of a pod up.

use nix::errno::Errno;
use rtnl::Link;

use crate::{Error, PodNetns, retry_while_busy};

/// Sets a link up.
///
/// # Errors
/// The error of the kernel, with its cause if that is known.
pub(crate) fn set_up(pod: &PodNetns, link: &Link) -> Result<(), Error> {
    retry_while_busy(|| pod.links.set_up(link.index, true)).map_err(|error| match (&error, link.mac) {
        // The kernel compares a macvlan link's address with those of the parent's other links only now.
        (rtnl::Error::Netlink(e), Some(mac)) if e.errno() == Some(Errno::EADDRINUSE) => {
            Error::MacInUse { mac, link: link.name.clone(), source: error }
        }
        _ => error.into(),
    })
}
