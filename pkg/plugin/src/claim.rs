//! Who has a device: a file for each, whose content is the owner.
//!
//! A VF and an RDMA device can be in one pod only. Whoever wants one claims it first; whoever takes one back
//! looks first whether it is somebody else's by now: a late DEL must not touch it.

use std::{
    fmt,
    fs::File,
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use addr::Attachment;
use cni::{Code, Error as CniError};
use journal::boot_id;
use netns::{NetNs, NetNsId};
use serde::{Deserialize, Serialize};
use sysfs::Function;
use tracing::{info, warn};

use crate::{Error, Node};

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
            match statefile::create(&path(node, self.part, &self.function), 0o600, &content, |_| Ok(())) {
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
        if present.lives()? {
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

    /// Whether the owner's namespace is there. That it cannot be opened for another reason does not mean
    /// that it is gone.
    fn lives(&self) -> Result<bool, Error> {
        match NetNs::open(&self.netns) {
            Ok(netns) => Ok(netns.id() == self.netns_id),
            Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes this very claim. The directory's lock keeps others from removing one that was made in its
    /// place between the look and the removal.
    fn remove(&self, node: &Node) -> Result<(), Error> {
        let file = path(node, self.part, &self.function);
        let dir = node.state.root().join(self.part.dir());
        let io = |source| statefile::Error::Io { operation: "open", path: dir.clone(), source };
        let directory = match File::open(&dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(io)?,
        };
        statefile::lock(&directory, &dir, Instant::now() + PATIENCE)?;
        match read(node, self.part, &self.function)? {
            Some(present) if present == *self => Ok(statefile::remove(&file)?),
            _ => Ok(()),
        }
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

fn read(node: &Node, part: Part, function: &Function) -> Result<Option<Claim>, Error> {
    let path = path(node, part, function);
    let Some(bytes) = statefile::read(&path)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(claim) => Ok(Some(claim)),
        Err(error) => {
            let aside = statefile::set_aside(&path)?;
            warn!(%error, file = %aside.display(), "a device's claim could not be read and was set aside");
            Ok(None)
        }
    }
}

/// A function's text is a file name: it was checked when it was parsed.
fn path(node: &Node, part: Part, function: &Function) -> PathBuf {
    node.state.root().join(part.dir()).join(function.to_string())
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Part::Vf => write!(f, "claim of VF {}", self.function),
            Part::Rdma => write!(f, "claim of the RDMA device of {}", self.function),
        }
    }
}
