//! Who has a device: a file for each, whose content is the owner.
//!
//! A VF and an RDMA device can be in one pod only. Whoever wants one claims it first; whoever takes one back
//! looks first whether it is somebody else's by now: a late DEL must not touch it.

use std::{
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use addr::Attachment;
use cni::{Code, Error as CniError};
use journal::boot_id;
use netns::{Living, NetNs, NetNsId};
use serde::{Deserialize, Serialize};
use sysfs::Function;
use tracing::{info, warn};

use crate::{Budget, Error, Node, State, journals::paths};

/// How long another process may hold a claims directory's lock. It normally does for microseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// What of a function is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The VF with its network device.
    Vf,
    /// Its RDMA device.
    Rdma,
}

impl Part {
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
pub struct Claim {
    part: Part,
    function: Function,
    owner: Attachment,
    netns: PathBuf,
    netns_id: NetNsId,
    boot_id: String,
}

impl Claim {
    /// The claim that an ADD will make.
    ///
    /// # Errors
    /// If the kernel does not tell which boot this is.
    pub fn of(
        part: Part,
        function: Function,
        owner: &Attachment,
        netns: PathBuf,
        netns_id: NetNsId,
    ) -> Result<Self, Error> {
        Ok(Self { part, function, owner: owner.clone(), netns, netns_id, boot_id: boot_id()?.into() })
    }

    /// Claims the device. If who had it before is gone without a DEL, `take_back` is called for that
    /// attachment first.
    ///
    /// # Errors
    /// That a living attachment has it.
    pub fn make(
        &self,
        node: &Node,
        take_back: impl Fn(&Attachment) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        node.state.make_dir(self.part.dir())?;
        let content = serde_json::to_vec(self).map_err(|e| CniError::new(Code::INTERNAL, e.to_string()))?;
        // Each round ends a claim that was in the way; another process may be faster, but not for ever.
        for _ in 0..8 {
            match statefile::create(
                &path(&node.state, self.part, &self.function),
                0o600,
                &content,
                |_| Ok(()),
            ) {
                Ok(_) => return Ok(()),
                Err(statefile::Error::Exists { .. }) => self.make_room(node, &take_back)?,
                Err(error) => return Err(error.into()),
            }
        }
        let msg = format!("{self} is made and released all the time by other attachments");
        Err(CniError::new(Code::TRY_AGAIN, msg).into())
    }

    fn make_room(
        &self,
        node: &Node,
        take_back: impl Fn(&Attachment) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let Some(present) = read(node, self.part, &self.function)? else { return Ok(()) };
        if present.boot_id != self.boot_id || present.owner == self.owner {
            return present.remove(node);
        }
        if NetNs::is_still_at(&present.netns, present.netns_id)? {
            let what = match self.part {
                Part::Vf => "pci address",
                Part::Rdma => "RDMA device of",
            };
            let msg = format!("{what} {} is already allocated to {}", self.function, present.owner);
            let details = format!("its namespace {} lives; nothing was touched", present.netns.display());
            return Err(CniError::new(Code::IN_USE, msg).with_details(details).into());
        }
        info!(device = %self.function, former = %present.owner, "taking back a device whose pod is gone without a DEL");
        take_back(&present.owner)?;
        // Without a journal nothing is known of how the device was; it is free all the same.
        present.remove(node)
    }

    /// Removes this very claim. The directory's lock keeps others from removing one that was made in its
    /// place between the look and the removal.
    fn remove(&self, node: &Node) -> Result<(), Error> {
        self.remove_if(&node.state, &node.budget, || Ok(true)).map(drop)
    }

    /// Removes this very claim if it `may` go, which is asked under the lock. Returns whether it is gone.
    ///
    /// # Errors
    /// If the claim cannot be read or removed, or what `may` failed with.
    pub(crate) fn remove_if(
        &self,
        state: &State,
        budget: &Budget,
        may: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let Some(_lock) = lock(state, budget, self.part)? else { return Ok(true) };
        let path = path(state, self.part, &self.function);
        match look(&path)? {
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
    pub(crate) fn is_there(&self, state: &State) -> Result<bool, Error> {
        Ok(look(&path(state, self.part, &self.function))?.is_some_and(|present| present.as_ref() == Ok(self)))
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
    pub fn device(&self) -> (Part, &Function) {
        (self.part, &self.function)
    }

    /// Why the owner is gone for certain; `None` if it may be there. Without a look at what lives, only a reboot is
    /// certain.
    pub fn death(&self, living: Option<&Living>) -> Option<String> {
        if boot_id().is_ok_and(|now| now != self.boot_id) {
            return Some("it was claimed before the last boot".into());
        }
        living?.death(&self.netns, self.netns_id)
    }

    /// Releases the device, if it is still this attachment's.
    ///
    /// # Errors
    /// If the claim cannot be read or removed.
    pub fn revert(&self, node: &Node) -> Result<(), Error> {
        self.remove(node)
    }

    /// Looks whether the device is still this attachment's.
    ///
    /// # Errors
    /// That it is not.
    pub fn verify(&self, node: &Node) -> Result<(), Error> {
        let changed = |msg: String| Err(CniError::new(Code::CHANGED, msg).into());
        match read(node, self.part, &self.function)? {
            Some(present) if present.owner == self.owner => Ok(()),
            Some(present) => changed(format!("{self}: it belongs to {} now", present.owner)),
            None => changed(format!("{self}: it belongs to nobody")),
        }
    }
}

/// Whether another attachment than `owner` has a device: then nothing of it may be touched.
///
/// # Errors
/// If the claim cannot be read.
pub fn is_anothers(node: &Node, part: Part, function: &Function, owner: &Attachment) -> Result<bool, Error> {
    let Some(present) = read(node, part, function)? else { return Ok(false) };
    Ok(present.owner != *owner && present.boot_id == boot_id()?)
}

/// Whether `owner` has a device.
///
/// # Errors
/// If the claim cannot be read.
pub fn is_owners(node: &Node, part: Part, function: &Function, owner: &Attachment) -> Result<bool, Error> {
    let Some(present) = read(node, part, function)? else { return Ok(false) };
    Ok(present.owner == *owner && present.boot_id == boot_id()?)
}

/// Every claim of a part; and the files there that are none, or were set aside.
///
/// # Errors
/// If they cannot be listed or read.
pub fn list(state: &State, part: Part) -> Result<(Vec<Claim>, Vec<PathBuf>), Error> {
    let (mut claims, mut others) = (Vec::new(), Vec::new());
    for file in paths(state.root().join(part.dir()))? {
        match look(&file)? {
            Some(Ok(claim)) if file == path(state, part, &claim.function) => claims.push(claim),
            Some(_) => others.push(file),
            None => {}
        }
    }
    Ok((claims, others))
}

/// The claim of a device. One that cannot be understood is moved out of the way and counts as none.
fn read(node: &Node, part: Part, function: &Function) -> Result<Option<Claim>, Error> {
    let path = path(&node.state, part, function);
    match look(&path)? {
        None => return Ok(None),
        Some(Ok(claim)) => return Ok(Some(claim)),
        Some(Err(_)) => {}
    }
    let Some(_lock) = lock(&node.state, &node.budget, part)? else { return Ok(None) };
    // Another process may have been faster, and a new claim be in its place.
    match look(&path)? {
        Some(Err(error)) => {
            let aside = statefile::set_aside(&path)?;
            warn!(%error, file = %aside.display(), "a device's claim could not be read and was set aside");
            Ok(None)
        }
        present => Ok(present.and_then(Result::ok)),
    }
}

/// The claim in a file, or why it is none; `None` if there is no file.
fn look(path: &Path) -> Result<Option<Result<Claim, String>>, Error> {
    match statefile::read(path) {
        Ok(bytes) => Ok(bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))),
        Err(error @ statefile::Error::Strange { .. }) => Ok(Some(Err(error.to_string()))),
        Err(error) => Err(error.into()),
    }
}

/// Keeps others from removing a claim; `None` if there is no directory of claims.
fn lock(state: &State, budget: &Budget, part: Part) -> Result<Option<File>, Error> {
    let dir = state.root().join(part.dir());
    let io = |source| statefile::Error::Io { operation: "open", path: dir.clone(), source };
    let directory = match File::open(&dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io)?,
    };
    statefile::lock(&directory, &dir, budget.until("the claims of devices", PATIENCE).at())?;
    Ok(Some(directory))
}

/// A function's text is a file name: it was checked when it was parsed.
fn path(state: &State, part: Part, function: &Function) -> PathBuf {
    state.root().join(part.dir()).join(function.to_string())
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Part::Vf => write!(f, "claim of VF {}", self.function),
            Part::Rdma => write!(f, "claim of the RDMA device of {}", self.function),
        }
    }
}
