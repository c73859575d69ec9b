//! Devices that the Go plugins attached to another pod after Silkrail's, on a node that was switched back to them.

use identifiers::Attachment;
use state::claim::{self, ClaimKind};
use sysfs::Function;

use crate::{Error, Node};

/// Whether a Go plugin has attached a device to a pod since `owner` claimed it. The attachment of `owner` ended without a DEL
/// of Silkrail then, and the device must not be moved out of that pod.
///
/// The Go plugins do not remove the file of every pod that has ended, so the device must also be missing on the host, which
/// the caller checks.
///
/// # Errors
/// If the claim cannot be read.
pub fn is_attached_by_go_since(
    node: &Node,
    kind: ClaimKind,
    function: &Function,
    owner: &Attachment,
) -> Result<bool, Error> {
    let claimed = claim::claimed_at(&node.state, node.claims_lock().at(), kind, function, owner)?;
    Ok(claimed.is_some_and(|claimed| node.go_state.is_attached_since(&function.to_string(), claimed)))
}
