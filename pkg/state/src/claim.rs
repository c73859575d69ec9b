//! Who has a device: a file for each, whose content is the owner.
//!
//! A VF and an RDMA device can be in one pod only. Whoever wants one claims it first; whoever takes one back
//! looks first whether it is somebody else's by now: a late DEL must not touch it.

use std::{
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use identifiers::Attachment;
use journal::boot_id;
use netns::{LiveNetns, NetNs, NetNsId};
use serde::{Deserialize, Serialize};
use sysfs::Function;
use tracing::{info, warn};

use crate::{Error, LockDeadline, StateDir, journals::paths};

/// What of a function is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimKind {
    /// The VF with its network device.
    Vf,
    /// Its RDMA device.
    Rdma,
}

impl ClaimKind {
    fn dir(self) -> &'static str {
        match self {
            Self::Vf => "vf",
            Self::Rdma => "rdma",
        }
    }
}

/// A device was claimed for an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClaim {
    part: ClaimKind,
    function: Function,
    owner: Attachment,
    netns: PathBuf,
    netns_id: NetNsId,
    boot_id: String,
}

impl DeviceClaim {
    /// The claim that an ADD will make.
    ///
    /// # Errors
    /// If the kernel does not tell which boot this is.
    pub fn of(
        part: ClaimKind,
        function: Function,
        owner: &Attachment,
        netns: PathBuf,
        netns_id: NetNsId,
    ) -> Result<Self, Error> {
        Ok(Self { part, function, owner: owner.clone(), netns, netns_id, boot_id: boot_id()?.into() })
    }

    /// Claims the device. If who had it before is gone without a DEL, `take_back` is called for that
    /// attachment first. Each wait for the directory's lock has the `deadline` of its beginning.
    ///
    /// # Errors
    /// That a living attachment has it.
    pub fn acquire<E: From<Error>, D: LockDeadline>(
        &self,
        state: &StateDir,
        deadline: &dyn Fn() -> D,
        take_back: impl Fn(&Attachment) -> Result<bool, E>,
    ) -> Result<(), E> {
        let content = self.content(state)?;
        // Each round ends a claim that was in the way; another process may be faster, but not for ever.
        for _ in 0..8 {
            match statefile::create(&path(state, self.part, &self.function), 0o600, &content, |_| Ok(())) {
                Ok(_) => return Ok(()),
                Err(statefile::Error::Exists { .. }) => self.release_former(state, deadline, &take_back)?,
                Err(error) => return Err(Error::from(error).into()),
            }
        }
        Err(Error::Contended { claim: self.to_string() }.into())
    }

    /// What its file says; the directory that it will be in is made.
    fn content(&self, state: &StateDir) -> Result<Vec<u8>, Error> {
        let dir = state.make_dir(self.part.dir())?;
        let io = |e: serde_json::Error| statefile::Error::Io {
            operation: "encode a claim for",
            path: dir,
            source: e.into(),
        };
        Ok(serde_json::to_vec(self).map_err(io)?)
    }

    fn release_former<E: From<Error>, D: LockDeadline>(
        &self,
        state: &StateDir,
        deadline: &dyn Fn() -> D,
        take_back: impl Fn(&Attachment) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Some(present) = read(state, deadline().at(), self.part, &self.function)? else { return Ok(()) };
        if present.boot_id != self.boot_id || present.owner == self.owner {
            return Ok(present.revert(state, deadline().at())?);
        }
        if NetNs::is_still_at(&present.netns, present.netns_id).map_err(Error::from)? {
            let DeviceClaim { owner, netns, .. } = present;
            let device = match self.part {
                ClaimKind::Vf => format!("pci address {}", self.function),
                ClaimKind::Rdma => format!("RDMA device of {}", self.function),
            };
            return Err(Error::InUse { device, owner, netns }.into());
        }
        info!(device = %self.function, former = %present.owner, "taking back a device whose pod is gone without a DEL");
        take_back(&present.owner)?;
        // Without a journal nothing is known of how the device was; it is free all the same.
        Ok(present.revert(state, deadline().at())?)
    }

    /// Removes this very claim if it `may` go, which is asked under the lock. Returns whether it is gone.
    ///
    /// # Errors
    /// If the claim cannot be read or removed, or what `may` failed with.
    pub(crate) fn remove_when(
        &self,
        state: &StateDir,
        deadline: Instant,
        may: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let Some(_lock) = lock(state, deadline, self.part)? else { return Ok(true) };
        let path = path(state, self.part, &self.function);
        match read_claim(&path)? {
            Some(Ok(present)) if present == *self => {}
            _ => return Ok(true),
        }
        let may = may()?;
        if may {
            statefile::remove(&path)?;
        }
        Ok(may)
    }

    /// Whether this very claim is there.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn is_there(&self, state: &StateDir) -> Result<bool, Error> {
        Ok(read_claim(&path(state, self.part, &self.function))?
            .is_some_and(|present| present.as_ref() == Ok(self)))
    }

    /// Who has the device.
    pub fn owner(&self) -> &Attachment {
        &self.owner
    }

    /// The owner's namespace, if it lives and is where it was: one with its number, which may be a later one.
    ///
    /// # Errors
    /// If it is there and cannot be opened.
    pub fn namespace(&self) -> Result<Option<NetNs>, Error> {
        match NetNs::open(&self.netns) {
            Ok(netns) => Ok(Some(netns).filter(|netns| netns.id() == self.netns_id)),
            Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What of which function.
    pub fn device(&self) -> (ClaimKind, &Function) {
        (self.part, &self.function)
    }

    /// Why the owner is gone for certain; `None` if it may be there. Without a look at what lives, only a reboot is
    /// certain.
    pub fn reason_dead(&self, living: Option<&LiveNetns>) -> Option<String> {
        if boot_id().is_ok_and(|now| now != self.boot_id) {
            return Some("it was claimed before the last boot".into());
        }
        living?.reason_dead(&self.netns, self.netns_id)
    }

    /// Releases the device, if it is still this attachment's. The directory's lock, which is waited for until `deadline`, keeps
    /// others from removing a claim that was made in its place between the look and the removal.
    ///
    /// # Errors
    /// If the claim cannot be read or removed.
    pub fn revert(&self, state: &StateDir, deadline: Instant) -> Result<(), Error> {
        self.remove_when(state, deadline, || Ok(true)).map(drop)
    }

    /// Looks whether the device is still this attachment's.
    ///
    /// # Errors
    /// That it is not.
    pub fn verify(&self, state: &StateDir, deadline: Instant) -> Result<(), Error> {
        let owner = read(state, deadline, self.part, &self.function)?.map(|present| present.owner);
        if owner.as_ref() == Some(&self.owner) {
            return Ok(());
        }
        Err(Error::NotOwner { claim: self.to_string(), owner })
    }
}

/// Whether another attachment than `owner` has a device: then nothing of it may be touched.
///
/// # Errors
/// If the claim cannot be read.
pub fn is_claimed_by_other(
    state: &StateDir,
    deadline: Instant,
    part: ClaimKind,
    function: &Function,
    owner: &Attachment,
) -> Result<bool, Error> {
    Ok(owner_of(state, deadline, part, function)?.is_some_and(|present| present != *owner))
}

/// Who has a device, by a claim of this boot.
///
/// # Errors
/// If the claim cannot be read.
pub fn owner_of(
    state: &StateDir,
    deadline: Instant,
    part: ClaimKind,
    function: &Function,
) -> Result<Option<Attachment>, Error> {
    let Some(present) = read(state, deadline, part, function)? else { return Ok(None) };
    Ok((present.boot_id == boot_id()?).then_some(present.owner))
}

/// Every claim of a part; and the files there that are none, or were set aside.
///
/// # Errors
/// If they cannot be listed or read.
pub fn list(state: &StateDir, part: ClaimKind) -> Result<(Vec<DeviceClaim>, Vec<PathBuf>), Error> {
    let (mut claims, mut others) = (Vec::new(), Vec::new());
    for file in paths(state.root().join(part.dir()))? {
        match read_claim(&file)? {
            Some(Ok(claim)) if file == path(state, part, &claim.function) => claims.push(claim),
            Some(_) => others.push(file),
            None => {}
        }
    }
    Ok((claims, others))
}

/// The claim of a device. One that cannot be understood is moved out of the way and counts as none.
fn read(
    state: &StateDir,
    deadline: Instant,
    part: ClaimKind,
    function: &Function,
) -> Result<Option<DeviceClaim>, Error> {
    let path = path(state, part, function);
    match read_claim(&path)? {
        None => return Ok(None),
        Some(Ok(claim)) => return Ok(Some(claim)),
        Some(Err(_)) => {}
    }
    let Some(_lock) = lock(state, deadline, part)? else { return Ok(None) };
    // Another process may have been faster, and a new claim be in its place.
    match read_claim(&path)? {
        Some(Err(error)) => {
            let aside = statefile::quarantine(&path)?;
            warn!(%error, file = %aside.display(), "a device's claim could not be read and was set aside");
            Ok(None)
        }
        present => Ok(present.and_then(Result::ok)),
    }
}

/// The claim in a file, or why it is none; `None` if there is no file.
fn read_claim(path: &Path) -> Result<Option<Result<DeviceClaim, String>>, Error> {
    match statefile::read(path) {
        Ok(bytes) => Ok(bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))),
        Err(error @ statefile::Error::Strange { .. }) => Ok(Some(Err(error.to_string()))),
        Err(error) => Err(error.into()),
    }
}

/// Keeps others from removing a claim; `None` if there is no directory of claims.
fn lock(state: &StateDir, deadline: Instant, part: ClaimKind) -> Result<Option<File>, Error> {
    let dir = state.root().join(part.dir());
    let io = |source| statefile::Error::Io { operation: "open", path: dir.clone(), source };
    let directory = match File::open(&dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io)?,
    };
    statefile::lock(&directory, &dir, deadline)?;
    Ok(Some(directory))
}

/// A function's text is a file name: it was checked when it was parsed.
fn path(state: &StateDir, part: ClaimKind, function: &Function) -> PathBuf {
    state.root().join(part.dir()).join(function.to_string())
}

impl fmt::Display for DeviceClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            ClaimKind::Vf => write!(f, "claim of VF {}", self.function),
            ClaimKind::Rdma => write!(f, "claim of the RDMA device of {}", self.function),
        }
    }
}
