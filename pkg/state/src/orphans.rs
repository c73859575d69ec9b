//! Orphans: claims and files whose owner has no journal, so that no DEL will release them.
//!
//! A journal exists before anything is claimed or published and until all of it is released. A claim whose owner has no
//! journal therefore does not belong to an ADD or DEL in progress: the journal was lost. The owner may still be running;
//! the caller must rule that out with the runtime's list of valid attachments or with [`LiveNetns`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Instant,
};

use identifiers::Attachment;
use ipam::{ClaimOwner, LocalStore, ReleaseOutcome};
use journal::{RecordedPod, boot_id};
use netns::{LiveNetns, NetNsId, NetnsLiveness, NotOnNode};
use podmap::Entry;

use crate::{
    Error, StateDir,
    claim::{self, ClaimKind, DeviceClaim},
    journals,
};

/// A claim or a file whose owner has no journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Orphan {
    /// The claim of a VF or an RDMA device.
    Device(DeviceClaim),
    /// The claim of an address.
    Address(IpAddr, Attachment),
    /// An entry of the pod map.
    Entry(PathBuf, Attachment),
    /// A link from a pod's interface to its attachment.
    Note(PathBuf, Attachment),
    /// The address claims of another boot, by its boot ID.
    Store(String),
}

/// Returns the claims of devices whose owner has no journal.
///
/// # Errors
/// If state cannot be read.
pub fn devices(state: &StateDir, part: ClaimKind) -> Result<Vec<DeviceClaim>, Error> {
    let (claims, _) = claim::list(state, part)?;
    retain_orphaned(state, claims, DeviceClaim::owner, |claim| claim.is_there(state))
}

/// Returns the claimed addresses whose owner has no journal.
///
/// # Errors
/// If state cannot be read.
pub fn addresses(state: &StateDir) -> Result<Vec<(IpAddr, Attachment)>, Error> {
    let Some(store) = store(state)? else { return Ok(Vec::new()) };
    let owned = store.claims()?.into_iter().filter_map(|claim| match claim.owner {
        ClaimOwner::Attachment(owner) => Some((claim.address, owner)),
        // Silkrail did not make it.
        ClaimOwner::Unknown(_) => None,
    });
    let is_there = |(address, owner): &(IpAddr, Attachment)| is_claimed(&store, *address, owner);
    retain_orphaned(state, owned.collect(), owner_of_pair, is_there)
}

/// Returns those of `things` whose owner has no journal. The journals are listed at most twice, for any number of things.
///
/// A DEL may remove a thing and its journal between the two lists, so each thing must still exist after the first list of
/// journals. An ADD may then make it again, but it writes its journal first, so the second list excludes it.
fn retain_orphaned<T>(
    state: &StateDir,
    mut things: Vec<T>,
    owner: impl Fn(&T) -> &Attachment,
    is_there: impl Fn(&T) -> Result<bool, Error>,
) -> Result<Vec<T>, Error> {
    if things.is_empty() {
        return Ok(things);
    }
    let known = journaled_attachments(state)?;
    things.retain(|thing| !known.contains(owner(thing)));
    let mut still = Vec::new();
    for thing in things {
        if is_there(&thing)? {
            still.push(thing);
        }
    }
    if !still.is_empty() {
        let known = self::journaled_attachments(state)?;
        still.retain(|thing| !known.contains(owner(thing)));
    }
    Ok(still)
}

/// The state that shows that an owner without a journal may still be running.
#[derive(Debug)]
pub struct LivenessEvidence<'a> {
    state: &'a StateDir,
    claims: BTreeMap<Attachment, Vec<DeviceClaim>>,
}

impl<'a> LivenessEvidence<'a> {
    /// Reads the claims of all owners.
    ///
    /// # Errors
    /// If state cannot be read.
    pub fn look(state: &'a StateDir) -> Result<Self, Error> {
        let mut claims: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for part in [ClaimKind::Vf, ClaimKind::Rdma] {
            for claim in claim::list(state, part)?.0 {
                claims.entry(claim.owner().clone()).or_default().push(claim);
            }
        }
        Ok(Self { state, claims })
    }

    /// Returns why an owner may still be running: a claim of a device or its pod map entry refers to a network namespace
    /// that might exist, or the entry cannot be parsed. `None` if there is no such evidence.
    pub fn of(&self, owner: &Attachment, living: Result<&LiveNetns, &NotOnNode>) -> Option<String> {
        let mut claims = self.claims.get(owner).into_iter().flatten();
        if let Some(claim) = claims.find(|claim| claim.reason_dead(living).is_none()) {
            return Some(format!("{claim} refers to a network namespace that might still exist"));
        }
        match self.state.podmap().read(owner) {
            Ok(entry) => reason_alive(&entry?, living),
            // It may have a newer version, and no other file describes the pod.
            Err(error) => Some(format!("its pod map entry cannot be parsed ({error})")),
        }
    }
}

/// Returns what the pod map records of a pod.
pub fn recorded_pod(entry: &Entry) -> RecordedPod<'_> {
    let container = &entry.container;
    let id = NetNsId::new(container.netns_dev, container.netns_ino);
    let netns = Some(NetNsId { cookie: container.netns_cookie, ..id });
    RecordedPod { boot_id: &entry.boot_id, netns_path: &container.netns_path, netns }
}

/// Returns why the pod of an entry may still be running; `None` if it is certainly gone.
fn reason_alive(entry: &Entry, living: Result<&LiveNetns, &NotOnNode>) -> Option<String> {
    let pod = recorded_pod(entry);
    let is_dead = matches!(pod.liveness_among(living), NetnsLiveness::Dead(_));
    let netns = entry.container.netns_ino;
    (!is_dead).then(|| {
        format!("its pod map entry refers to network namespace net:[{netns}], which might still exist")
    })
}

/// Returns the state files that cannot be parsed, and the quarantined ones. They are never deleted automatically: each may
/// be the only record of a resource in use.
///
/// # Errors
/// If state cannot be read.
pub fn unreadable(state: &StateDir) -> Result<Vec<PathBuf>, Error> {
    let is_quarantined = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| statefile::original_name(name).is_some())
    };
    let mut found = journals::paths(state.attachments())?;
    found.extend(journals::paths(state.podmap().dir().to_owned())?);
    found.extend(journals::paths(state.masters())?);
    found.retain(is_quarantined);
    for part in [ClaimKind::Vf, ClaimKind::Rdma] {
        found.extend(claim::list(state, part)?.1);
    }
    Ok(found)
}

/// Returns derived files whose owner has no journal: entries of the pod map, links of pods, and stores of other boots.
///
/// # Errors
/// If state cannot be read.
pub fn orphaned_files(state: &StateDir) -> Result<Vec<Orphan>, Error> {
    let entries = retain_orphaned(state, entries(state)?, owner_of_pair, |(path, _)| Ok(is_entry(path)))?;
    let notes = retain_orphaned(state, notes(state)?, owner_of_pair, |(path, of)| Ok(is_note(path, of)))?;
    let stores = LocalStore::other_boots(state.root(), boot_id()?)?;
    let mut orphans: Vec<_> = entries.into_iter().map(|(path, of)| Orphan::Entry(path, of)).collect();
    orphans.extend(notes.into_iter().map(|(path, of)| Orphan::Note(path, of)));
    orphans.extend(stores.into_iter().map(Orphan::Store));
    Ok(orphans)
}

impl Orphan {
    /// Returns the owner; `None` for the store of another boot.
    pub fn owner(&self) -> Option<&Attachment> {
        match self {
            Self::Device(claim) => Some(claim.owner()),
            Self::Address(_, owner) | Self::Entry(_, owner) | Self::Note(_, owner) => Some(owner),
            Self::Store(_) => None,
        }
    }

    /// Releases or removes the orphan, unless its owner has a journal by now. Returns whether it was removed.
    ///
    /// # Errors
    /// If state cannot be read or written.
    pub fn release(&self, state: &StateDir, deadline: Instant) -> Result<bool, Error> {
        match self {
            Self::Device(claim) => release_device(state, deadline, claim),
            Self::Address(address, owner) => release_address(state, *address, owner),
            Self::Entry(path, owner) => remove_if(path, is_entry(path), state, owner),
            // The pod's next sandbox may have replaced the link by its own.
            Self::Note(path, owner) => remove_if(path, is_note(path, owner), state, owner),
            Self::Store(boot) => Ok(LocalStore::remove_boot(state.root(), boot).map(|()| true)?),
        }
    }
}

/// Returns the attachments that have a journal.
fn journaled_attachments(state: &StateDir) -> Result<BTreeSet<Attachment>, Error> {
    Ok(journals::list(state)?.into_iter().map(|journal| journal.attachment).collect())
}

fn store(state: &StateDir) -> Result<Option<LocalStore>, Error> {
    Ok(LocalStore::open_existing(state.root(), boot_id()?)?)
}

fn release_device(state: &StateDir, deadline: Instant, claim: &DeviceClaim) -> Result<bool, Error> {
    claim.remove_when(state, deadline, || Ok(!journals::has_journal(state, claim.owner())?))
}

fn release_address(state: &StateDir, address: IpAddr, owner: &Attachment) -> Result<bool, Error> {
    let Some(store) = store(state)? else { return Ok(true) };
    let orphan = || Ok::<_, Error>(!journals::has_journal(state, owner)?);
    Ok(store.release_when(address, owner, orphan)? != ReleaseOutcome::Kept)
}

/// Lists the files of the pod map, including temporary files of killed processes.
fn entries(state: &StateDir) -> Result<Vec<(PathBuf, Attachment)>, Error> {
    let attachment = |name: &str| {
        let being_written = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new"));
        being_written.unwrap_or(name).strip_suffix(".json")?.parse().ok()
    };
    let of = |path: PathBuf| Some((attachment(path.file_name()?.to_str()?)?, path));
    let paths = journals::paths(state.podmap().dir().to_owned())?;
    Ok(paths.into_iter().filter_map(of).map(|(attachment, path)| (path, attachment)).collect())
}

/// Lists the links of pods: symbolic links whose target is the attachment.
fn notes(state: &StateDir) -> Result<Vec<(PathBuf, Attachment)>, Error> {
    let of = |path: PathBuf| Some((attachment_in(&path)?, path));
    let paths = journals::paths(state.notes())?;
    Ok(paths.into_iter().filter_map(of).map(|(attachment, path)| (path, attachment)).collect())
}

/// Returns the attachment that is the target of a link.
fn attachment_in(path: &Path) -> Option<Attachment> {
    fs::read_link(path).ok()?.to_str()?.parse().ok()
}

fn owner_of_pair<T>(pair: &(T, Attachment)) -> &Attachment {
    &pair.1
}

fn is_claimed(store: &LocalStore, address: IpAddr, owner: &Attachment) -> Result<bool, Error> {
    Ok(store.owner(address)? == Some(ClaimOwner::Attachment(owner.clone())))
}

fn is_entry(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn is_note(path: &Path, of: &Attachment) -> bool {
    attachment_in(path).as_ref() == Some(of)
}

/// Removes a file if it exists and its owner has no journal. The journals are read second: a DEL removes its journal last,
/// an ADD writes it first.
fn remove_if(path: &Path, is_there: bool, state: &StateDir, owner: &Attachment) -> Result<bool, Error> {
    let is_orphan = is_there && !journals::has_journal(state, owner)?;
    if is_orphan {
        remove(path)?;
    }
    Ok(is_orphan)
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => {
            let failed = |source| statefile::Error::Io { operation: "remove", path: path.to_owned(), source };
            Ok(removed.map_err(failed)?)
        }
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(claim) => claim.fmt(f),
            Self::Address(address, owner) => write!(f, "address {address} of {owner}"),
            Self::Entry(_, of) => write!(f, "pod map entry of {of}"),
            Self::Note(_, of) => write!(f, "link from a pod's interface to {of}"),
            Self::Store(boot) => write!(f, "address claims of boot {boot}"),
        }
    }
}

#[cfg(test)]
mod tests;
