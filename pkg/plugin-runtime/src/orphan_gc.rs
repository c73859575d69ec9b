//! GC of what no journal tells of.

use std::path::Path;

use identifiers::Attachment;
use netns::LiveNetns;
use state::{
    claim::ClaimKind,
    orphans::{self, LivenessEvidence, Orphan},
};
use tracing::info;

use crate::{Error, Node};

/// Releases what attachments without a journal have claimed of devices, if they are neither valid nor alive. Where
/// nobody can say who is alive, what may be is left alone.
///
/// # Errors
/// What is left.
pub fn release_devices(node: &Node, part: ClaimKind, valid: &[Attachment]) -> Result<(), Error> {
    let mut claims = orphans::devices(&node.state, part)?;
    claims.retain(|claim| !valid.contains(claim.owner()));
    if claims.is_empty() {
        return Ok(());
    }
    let living = LiveNetns::scan(Path::new("/"))
        .inspect_err(|why| info!(%why, "claims without a journal are left alone"));
    let dead = claims.into_iter().filter(|claim| claim.reason_dead(living.as_ref().ok()).is_some());
    release(node, dead.map(Orphan::Device))
}

/// Releases the addresses that attachments without a journal have claimed, if they are not valid and nothing says that
/// they may live.
///
/// # Errors
/// What is left.
pub fn release_addresses(node: &Node, valid: &[Attachment]) -> Result<(), Error> {
    let mut claims = orphans::addresses(&node.state)?;
    claims.retain(|(_, owner)| !valid.contains(owner));
    if claims.is_empty() {
        return Ok(());
    }
    let living = LiveNetns::scan(Path::new("/")).ok();
    let mut dead = Vec::new();
    let witnesses = LivenessEvidence::look(&node.state)?;
    for (address, owner) in claims {
        match witnesses.of(&owner, living.as_ref()) {
            Some(why) => info!(%address, %owner, why, "an address without a journal is left alone"),
            None => dead.push(Orphan::Address(address, owner)),
        }
    }
    release(node, dead.into_iter())
}

fn release(node: &Node, orphans: impl Iterator<Item = Orphan>) -> Result<(), Error> {
    let mut failures = Vec::new();
    for orphan in orphans {
        match orphan.release(&node.state, node.claims_lock().at()) {
            Ok(true) => info!(%orphan, "released what no journal tells of"),
            Ok(false) => {}
            Err(error) => failures.push(format!("{orphan}: {error}")),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Error::Left(failures.join("; "))) }
}
