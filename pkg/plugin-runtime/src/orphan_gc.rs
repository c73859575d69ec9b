//! GC of orphans: claims of devices and addresses whose owner has no journal.

use std::path::Path;

use identifiers::Attachment;
use netns::LiveNetns;
use state::{
    claim::ClaimKind,
    orphans::{self, LivenessEvidence, Orphan},
};
use tracing::info;

use crate::{Error, Node};

/// Releases the orphaned claims of devices whose owner is neither valid nor alive. If the living namespaces cannot be
/// listed, claims that may be in use are kept.
///
/// # Errors
/// The claims that could not be released.
pub fn release_devices(node: &Node, part: ClaimKind, valid: &[Attachment]) -> Result<(), Error> {
    let mut claims = orphans::devices(&node.state, part)?;
    claims.retain(|claim| !valid.contains(claim.owner()));
    if claims.is_empty() {
        return Ok(());
    }
    let living = LiveNetns::scan(Path::new("/")).inspect_err(
        |why| info!(%why, "keeping claims without a journal: cannot list the namespaces in use"),
    );
    let dead = claims.into_iter().filter(|claim| claim.reason_dead(living.as_ref().ok()).is_some());
    release(node, dead.map(Orphan::Device))
}

/// Releases the orphaned addresses whose owner is not valid and for which there is no evidence that it may still be
/// alive.
///
/// # Errors
/// The addresses that could not be released.
pub fn release_addresses(node: &Node, valid: &[Attachment]) -> Result<(), Error> {
    let mut claims = orphans::addresses(&node.state)?;
    claims.retain(|(_, owner)| !valid.contains(owner));
    if claims.is_empty() {
        return Ok(());
    }
    let living = LiveNetns::scan(Path::new("/")).ok();
    let mut dead = Vec::new();
    let evidence = LivenessEvidence::look(&node.state)?;
    for (address, owner) in claims {
        match evidence.of(&owner, living.as_ref()) {
            Some(why) => info!(%address, %owner, why, "keeping an address without a journal"),
            None => dead.push(Orphan::Address(address, owner)),
        }
    }
    release(node, dead.into_iter())
}

fn release(node: &Node, orphans: impl Iterator<Item = Orphan>) -> Result<(), Error> {
    let mut failures = Vec::new();
    for orphan in orphans {
        match orphan.release(&node.state, node.claims_lock().at()) {
            Ok(true) => info!(%orphan, "released a claim without a journal"),
            Ok(false) => {}
            Err(error) => failures.push(format!("{orphan}: {error}")),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Error::Left(failures.join("; "))) }
}
