//! The claims: one symbolic link per address whose target is the owner.
//!
//! To make a link is one system call that either succeeds with its content or fails because the name is
//! there. So the directory alone says who has what; there is no moment at which a claim has no owner, and
//! nothing to repair after a kill. The links lead nowhere and are never followed.

use std::{
    ffi::OsString,
    fmt,
    fs::File,
    net::IpAddr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use identifiers::Attachment;
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{OFlag, openat, readlinkat, renameat},
    sys::stat::{Mode, fstat},
    unistd::{UnlinkatFlags, symlinkat, unlinkat},
};

use crate::{
    StoreError,
    store::{kill_point, lock::lock},
};

/// How long a removal waits for another one before it gives up.
const REMOVAL_LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The kernel stamps directories by a clock that ticks this often, or more often.
const CLOCK_TICK: Duration = Duration::from_millis(20);
/// Under this name a link is made that will replace another. It is no address.
const REPLACEMENT: &str = ".replacement";

/// Who has an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOwner {
    /// An attachment.
    Attachment(Attachment),
    /// Something that is no attachment: the claim was not made by this program.
    Unknown(String),
}

/// An address and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressClaim {
    /// The address.
    pub address: IpAddr,
    /// Who has it.
    pub owner: ClaimOwner,
}

/// What a release found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The claim was ours and is gone.
    Released,
    /// The address belongs to somebody else and was left alone.
    NotOurs(ClaimOwner),
    /// Nobody had the address.
    Absent,
    /// The claim was ours and is not to go, after all.
    Kept,
}

/// What an attempt to claim found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClaimAttempt {
    /// The address is ours, now or since an earlier attempt.
    Ours,
    /// Somebody else has it.
    Theirs,
}

impl fmt::Display for ClaimOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attachment(attachment) => attachment.fmt(f),
            Self::Unknown(text) => fmt::Debug::fmt(text, f),
        }
    }
}

impl ClaimOwner {
    fn read(text: OsString) -> Self {
        let text = text.to_string_lossy().into_owned();
        text.parse().map_or(Self::Unknown(text), Self::Attachment)
    }
}

/// The directory of claims.
#[derive(Debug)]
pub(crate) struct ClaimDir {
    directory: OwnedFd,
    path: PathBuf,
}

impl ClaimDir {
    pub(crate) fn new(directory: OwnedFd, path: PathBuf) -> Self {
        Self { directory, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Claims an address if nobody has it.
    pub(crate) fn take(&self, address: IpAddr, owner: &str) -> Result<ClaimAttempt, StoreError> {
        let name = address.to_string();
        // The link may go between the two calls; then it is tried again. Twice is bad luck enough.
        for _ in 0..3 {
            kill_point::point();
            match symlinkat(owner, &self.directory, name.as_str()) {
                Ok(()) => return Ok(ClaimAttempt::Ours),
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(StoreError::io("make claim", self.path.join(name))(errno)),
            }
            match self.target(&name)? {
                Some(target) if target == owner => {}
                Some(_) => return Ok(ClaimAttempt::Theirs),
                None => continue,
            }
            // Ours from an earlier attempt. Who is just removing it, because no journal told of it, has the lock.
            let _lock = self.lock()?;
            if self.target(&name)?.is_some_and(|target| target == owner) {
                return Ok(ClaimAttempt::Ours);
            }
        }
        Ok(ClaimAttempt::Theirs)
    }

    /// Who has an address.
    pub(crate) fn owner(&self, address: IpAddr) -> Result<Option<ClaimOwner>, StoreError> {
        Ok(self.target(&address.to_string())?.map(ClaimOwner::read))
    }

    /// Gives an address back if it is the owner's. `before` runs under the lock when it may be given to others, and has
    /// the last word.
    pub(crate) fn remove<E: From<StoreError>>(
        &self,
        address: IpAddr,
        owner: &str,
        before: impl FnOnce() -> Result<bool, E>,
    ) -> Result<ReleaseOutcome, E> {
        let _lock = self.lock()?;
        let name = address.to_string();
        match self.target(&name)? {
            Some(target) if target == owner => {}
            Some(target) => return Ok(ReleaseOutcome::NotOurs(ClaimOwner::read(target))),
            None => {
                before()?;
                return Ok(ReleaseOutcome::Absent);
            }
        }
        if !before()? {
            return Ok(ReleaseOutcome::Kept);
        }
        kill_point::point();
        unlinkat(&self.directory, name.as_str(), UnlinkatFlags::NoRemoveDir)
            .map_err(StoreError::io("remove claim", self.path.join(name)))?;
        Ok(ReleaseOutcome::Released)
    }

    /// Gives an address of one owner to another. At no moment it is free.
    pub(crate) fn replace(&self, address: IpAddr, from: &str, to: &str) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        let name = address.to_string();
        match self.target(&name)? {
            Some(target) if target == from => {}
            Some(target) if target == to => return Ok(()),
            other => {
                let owner = other.map(ClaimOwner::read);
                return Err(StoreError::NotOwner { address, expected: from.to_owned(), owner });
            }
        }
        let failed = || StoreError::io("replace claim", self.path.join(&name));
        kill_point::point();
        // A killed process may have left one; under the lock it is nobody's.
        match unlinkat(&self.directory, REPLACEMENT, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(failed()(errno)),
        }
        kill_point::point();
        symlinkat(to, &self.directory, REPLACEMENT).map_err(failed())?;
        kill_point::point();
        renameat(&self.directory, REPLACEMENT, &self.directory, name.as_str()).map_err(failed())
    }

    /// All claimed addresses.
    pub(crate) fn addresses(&self) -> Result<Vec<IpAddr>, StoreError> {
        let failed = || StoreError::io("list", &self.path);
        let mut addresses = Vec::new();
        let mut directory = Dir::from_fd(self.reopen()?.into()).map_err(failed())?;
        for entry in directory.iter() {
            let entry = entry.map_err(failed())?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            // Another spelling of an address is not a claim of ours.
            if let Ok(address) = name.parse::<IpAddr>()
                && address.to_string() == name
            {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    /// All claims.
    pub(crate) fn list(&self) -> Result<Vec<AddressClaim>, StoreError> {
        let mut claims = Vec::new();
        for address in self.addresses()? {
            if let Some(owner) = self.owner(address)? {
                claims.push(AddressClaim { address, owner });
            }
        }
        Ok(claims)
    }

    /// A number that differs from an earlier one if claims came or went in between; 0 differs from itself.
    ///
    /// It is the directory's time of change. That clock ticks slowly, so a time just past can still come again.
    pub(crate) fn stamp(&self) -> Result<u64, StoreError> {
        let failed = || StoreError::io("stat", &self.path);
        let stat = fstat(&self.directory).map_err(failed())?;
        let nanos = u64::try_from(stat.st_mtime_nsec).unwrap_or(0);
        let changed =
            Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0)) + Duration::from_nanos(nanos);
        let settled = (SystemTime::UNIX_EPOCH + changed).elapsed().is_ok_and(|age| age > CLOCK_TICK);
        Ok(if settled { u64::try_from(changed.as_nanos()).unwrap_or(0) } else { 0 })
    }

    fn target(&self, name: &str) -> Result<Option<OsString>, StoreError> {
        match readlinkat(&self.directory, name) {
            Ok(target) => Ok(Some(target)),
            Err(Errno::ENOENT) => Ok(None),
            // Something else has the name: the address is taken, nobody knows by whom.
            Err(Errno::EINVAL) => Ok(Some(OsString::new())),
            Err(errno) => Err(StoreError::io("read claim", self.path.join(name))(errno)),
        }
    }

    /// Holds off every other removal: who looks at an owner and acts upon it must not be overtaken.
    fn lock(&self) -> Result<File, StoreError> {
        let directory = self.reopen()?;
        lock(&directory, &self.path, Instant::now() + REMOVAL_LOCK_TIMEOUT)?;
        Ok(directory)
    }

    /// The directory once more: its lock and its listing belong to an open file, not to a process.
    fn reopen(&self) -> Result<File, StoreError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = openat(&self.directory, ".", flags, Mode::empty());
        opened.map(File::from).map_err(StoreError::io("open", &self.path))
    }
}
