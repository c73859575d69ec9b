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
    release_devices_of(Path::new("/"), node, part, valid)
}

/// Releases the claims as [`release_devices`] does, by the processes below a root directory.
fn release_devices_of(root: &Path, node: &Node, part: ClaimKind, valid: &[Attachment]) -> Result<(), Error> {
    let mut claims = orphans::devices(&node.state, part)?;
    claims.retain(|claim| !valid.contains(claim.owner()));
    if claims.is_empty() {
        return Ok(());
    }
    let living = LiveNetns::scan(root).inspect_err(
        |why| info!(%why, "keeping claims without a journal: cannot list the namespaces in use"),
    );
    let dead = claims.into_iter().filter(|claim| claim.reason_dead(living.as_ref()).is_some());
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
    let living = LiveNetns::scan(Path::new("/"));
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use netns::NetNsId;
    use state::{
        StateDir,
        claim::{self, DeviceClaim},
    };

    use super::*;

    #[test]
    fn every_claim_without_a_journal_is_released_unless_its_owner_is_valid_or_alive() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::new(StateDir::at(dir.path()), Vec::new(), None);
        let own = netns::NetNs::current().unwrap().id();
        for (owner, device, id) in [
            ("gone@net1", "0000:af:00.2", NetNsId::new(4, 1)),
            ("valid@net1", "0000:af:00.3", NetNsId::new(4, 1)),
            ("alive@net1", "0000:af:00.4", own),
            ("gone@net2", "0000:af:00.5", NetNsId::new(4, 1)),
        ] {
            let (owner, device) = (owner.parse().unwrap(), device.parse().unwrap());
            let claim = DeviceClaim::of(ClaimKind::Vf, device, &owner, "/gone".into(), id).unwrap();
            claim.acquire(&node.state, &|| node.claims_lock(), |_| Ok::<_, Error>(true)).unwrap();
        }
        // A node on which only this process runs.
        let proc = dir.path().join("root/proc");
        for process in ["1", "self"] {
            fs::create_dir_all(proc.join(process).join("ns")).unwrap();
            symlink("net:[4026531840]", proc.join(process).join("ns/net")).unwrap();
            fs::write(proc.join(process).join("mountinfo"), "").unwrap();
        }
        symlink("pid:[4026531836]", proc.join("self/ns/pid")).unwrap();
        symlink("/proc/self", proc.join("77")).unwrap();
        let root = dir.path().join("root");
        release_devices_of(&root, &node, ClaimKind::Rdma, &[]).unwrap();
        release_devices_of(&root, &node, ClaimKind::Vf, &["valid@net1".parse().unwrap()]).unwrap();
        let (claims, _) = claim::list(&node.state, ClaimKind::Vf).unwrap();
        let mut owners: Vec<_> = claims.iter().map(|claim| claim.owner().to_string()).collect();
        owners.sort();
        assert_eq!(owners, ["alive@net1", "valid@net1"]);
    }
}
