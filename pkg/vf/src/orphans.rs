//! Claims of VFs and RDMA devices whose attachments have no journal.

use identifiers::Attachment;
use plugin_runtime::{Error, Node, orphan_gc};
use state::claim::ClaimKind;

/// Releases the claims of attachments that are not valid and have no journal.
///
/// # Errors
/// If a claim cannot be read or released; the others are released.
pub fn release_orphans(node: &Node, valid: &[Attachment]) -> Result<(), Error> {
    let released = orphan_gc::release_devices(node, ClaimKind::Vf, valid);
    released.and(orphan_gc::release_devices(node, ClaimKind::Rdma, valid))
}
