//! Claims of devices: one file for each claimed device, which contains the owner.
//!
//! A VF and an RDMA device can be in one pod only. An ADD claims the device before it uses it. A revert checks
//! first that the claim is still its own: a late DEL must not change a device that has another owner by then.

use std::{
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

use identifiers::Attachment;
use journal::{RecordedPod, boot_id};
use netns::{LiveNetns, NetNs, NetNsId, NetnsLiveness, NotOnNode};
use serde::{Deserialize, Serialize};
use sysfs::Function;
use tracing::{info, warn};

use crate::{Error, LockDeadline, StateDir, awaited_return, journals::paths};

/// The part of a PCI function that is claimed.
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

/// The claim of a device for an attachment.
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
    /// Returns a claim without making it; see [`DeviceClaim::acquire`].
    ///
    /// # Errors
    /// If the boot ID cannot be read.
    pub fn of(
        part: ClaimKind,
        function: Function,
        owner: &Attachment,
        netns: PathBuf,
        netns_id: NetNsId,
    ) -> Result<Self, Error> {
        Ok(Self { part, function, owner: owner.clone(), netns, netns_id, boot_id: boot_id()?.into() })
    }

    /// Claims the device. If the former owner is certainly gone, `revert_former` is called for that attachment first.
    /// `deadline` is called at the start of each wait for the directory's lock.
    ///
    /// # Errors
    /// [`Error::InUse`] if the owner is or may be alive; the errors of `revert_former`.
    pub fn acquire<E: From<Error>, D: LockDeadline>(
        &self,
        state: &StateDir,
        deadline: &dyn Fn() -> D,
        revert_former: impl Fn(&Attachment) -> Result<bool, E>,
    ) -> Result<(), E> {
        self.acquire_on(Path::new("/"), state, deadline, revert_former)
    }

    /// Claims the device as [`DeviceClaim::acquire`] does, by the processes below a root directory.
    fn acquire_on<E: From<Error>, D: LockDeadline>(
        &self,
        root: &Path,
        state: &StateDir,
        deadline: &dyn Fn() -> D,
        revert_former: impl Fn(&Attachment) -> Result<bool, E>,
    ) -> Result<(), E> {
        let content = self.content(state)?;
        // Each round releases one former claim. Another process may claim the device in between, but not always.
        for _ in 0..8 {
            match statefile::create(&path(state, self.part, &self.function), 0o600, &content, |_| Ok(())) {
                Ok(_) => return Ok(()),
                Err(statefile::Error::Exists { .. }) => {
                    self.release_former(root, state, deadline, &revert_former)?
                }
                Err(error) => return Err(Error::from(error).into()),
            }
        }
        Err(Error::Contended { claim: self.to_string() }.into())
    }

    /// Returns the content of the claim's file, as JSON, and creates its directory.
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
        root: &Path,
        state: &StateDir,
        deadline: &dyn Fn() -> D,
        revert_former: impl Fn(&Attachment) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Some(present) = read(state, deadline().at(), self.part, &self.function)? else { return Ok(()) };
        if present.boot_id != self.boot_id || present.owner == self.owner {
            return Ok(present.revert(state, deadline().at())?);
        }
        let why = match present.pod().liveness(root) {
            NetnsLiveness::Dead(why) => why,
            alive => return Err(present.in_use(alive).into()),
        };
        info!(device = %self.function, former = %present.owner, %why, "reclaiming a device of a pod that is gone without a DEL");
        revert_former(&present.owner)?;
        // Without a journal, the former settings of the device are unknown. The device is free anyway.
        Ok(present.revert(state, deadline().at())?)
    }

    /// Whether a call has waited in vain for the device to return from its owner's pod: see [`DeviceClaim::record_wait`].
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn was_awaited(&self, state: &StateDir) -> Result<bool, Error> {
        awaited_return::exists(state, &self.function, &self.owner_in_record())
    }

    /// Records that a call has waited in vain for the device to return from its owner's pod, until the claim is released.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn record_wait(&self, state: &StateDir) -> Result<(), Error> {
        awaited_return::write(state, &self.function, &self.owner_in_record())
    }

    fn owner_in_record(&self) -> String {
        format!("{} {} {}\n", self.owner, self.netns_id, self.boot_id)
    }

    /// Returns what is recorded of the owner's pod.
    pub fn pod(&self) -> RecordedPod<'_> {
        RecordedPod { boot_id: &self.boot_id, netns_path: &self.netns, netns: Some(self.netns_id) }
    }

    fn in_use(self, liveness: NetnsLiveness) -> Error {
        let device = match self.part {
            ClaimKind::Vf if self.function.pci().is_none() => format!("auxiliary device {}", self.function),
            ClaimKind::Vf => format!("pci address {}", self.function),
            ClaimKind::Rdma => format!("RDMA device of {}", self.function),
        };
        let evidence = match liveness {
            NetnsLiveness::Held(how) => Some(how),
            NetnsLiveness::Named | NetnsLiveness::Dead(_) => None,
        };
        Error::InUse { device, owner: self.owner, netns: self.netns, evidence }
    }

    /// Removes exactly this claim if `condition`, which is evaluated under the lock, returns `true`. Returns whether the
    /// claim is gone.
    ///
    /// # Errors
    /// If the claim cannot be read or removed, or the error of `condition`.
    pub(crate) fn remove_when(
        &self,
        state: &StateDir,
        deadline: Instant,
        condition: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let Some(_lock) = lock(state, deadline, self.part)? else { return Ok(true) };
        let path = path(state, self.part, &self.function);
        match read_claim(&path)? {
            Some(Ok(present)) if present == *self => {}
            _ => return Ok(true),
        }
        let remove = condition()?;
        if remove {
            statefile::remove(&path)?;
            if self.part == ClaimKind::Rdma {
                awaited_return::remove(state, &self.function)?;
            }
        }
        Ok(remove)
    }

    /// Whether exactly this claim exists.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn is_there(&self, state: &StateDir) -> Result<bool, Error> {
        Ok(read_claim(&path(state, self.part, &self.function))?
            .is_some_and(|present| present.as_ref() == Ok(self)))
    }

    /// Returns the owner of the device.
    pub fn owner(&self) -> &Attachment {
        &self.owner
    }

    /// Returns the owner's namespace if its path still leads to a namespace with the same device and inode number. The kernel
    /// may have reused the number for a later namespace.
    ///
    /// # Errors
    /// If it exists and cannot be opened.
    pub fn namespace(&self) -> Result<Option<NetNs>, Error> {
        match NetNs::open(&self.netns) {
            Ok(netns) => Ok(Some(netns).filter(|netns| netns.id() == self.netns_id)),
            Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the claimed part and its PCI function.
    pub fn device(&self) -> (ClaimKind, &Function) {
        (self.part, &self.function)
    }

    /// Returns why the owner is certainly gone; `None` if it is or may be alive.
    pub fn reason_dead(&self, living: Result<&LiveNetns, &NotOnNode>) -> Option<String> {
        self.pod().liveness_among(living).reason_dead()
    }

    /// Releases the device if it is still claimed by this attachment. Waits until `deadline` for the lock of the directory,
    /// which ensures that the file is not replaced between the comparison and the removal.
    ///
    /// # Errors
    /// If the claim cannot be read or removed.
    pub fn revert(&self, state: &StateDir, deadline: Instant) -> Result<(), Error> {
        self.remove_when(state, deadline, || Ok(true)).map(drop)
    }

    /// Checks that the device is still claimed by this attachment.
    ///
    /// # Errors
    /// [`Error::NotOwner`] if it is not.
    pub fn verify(&self, state: &StateDir, deadline: Instant) -> Result<(), Error> {
        let owner = read(state, deadline, self.part, &self.function)?.map(|present| present.owner);
        if owner.as_ref() == Some(&self.owner) {
            return Ok(());
        }
        Err(Error::NotOwner { claim: self.to_string(), owner })
    }
}

/// Whether a device is claimed by an attachment other than `owner`, and therefore must not be changed.
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

/// Returns the owner of a device, if it was claimed since the last boot.
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

/// Returns when `owner` claimed a device; `None` if it has no claim.
///
/// # Errors
/// If the claim cannot be read.
pub fn claimed_at(
    state: &StateDir,
    deadline: Instant,
    part: ClaimKind,
    function: &Function,
    owner: &Attachment,
) -> Result<Option<SystemTime>, Error> {
    if owner_of(state, deadline, part, function)?.as_ref() != Some(owner) {
        return Ok(None);
    }
    let meta = fs::symlink_metadata(path(state, part, function));
    Ok(meta.and_then(|meta| meta.modified()).ok())
}

/// Lists the claims of a kind, and the files of the directory that cannot be parsed or are quarantined.
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

/// Reads the claim of a device. A file that cannot be parsed is quarantined and counts as no claim.
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
    // Another process may have quarantined it already, and a new claim may be in its place.
    match read_claim(&path)? {
        Some(Err(error)) => {
            let quarantined = statefile::quarantine(&path)?;
            warn!(%error, file = %quarantined.display(), "the claim of a device could not be parsed and was quarantined");
            Ok(None)
        }
        present => Ok(present.and_then(Result::ok)),
    }
}

/// Reads a claim, or returns why the file cannot be parsed; `None` if the file does not exist.
fn read_claim(path: &Path) -> Result<Option<Result<DeviceClaim, String>>, Error> {
    match statefile::read(path) {
        Ok(bytes) => Ok(bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))),
        Err(error) if error.is_foreign() => Ok(Some(Err(error.to_string()))),
        Err(error) => Err(error.into()),
    }
}

/// Locks the directory of a kind, so that no other process removes a claim; `None` if the directory does not exist.
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

/// Returns the path of a claim. `Function` prints as a safe file name, because it is checked when it is parsed.
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

#[cfg(test)]
mod tests;
