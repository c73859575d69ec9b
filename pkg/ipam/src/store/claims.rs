//! The claims: one symbolic link per address, whose target is the owner.
//!
//! symlink(2) either creates a link together with its content or fails because the name exists. The directory is
//! therefore the only record: a claim always has an owner, and nothing needs repair after a kill. The links are
//! dangling and are never followed.

use std::{
    ffi::OsString,
    fs::File,
    net::IpAddr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{OFlag, openat, readlinkat, renameat},
    sys::stat::{Mode, fstat},
    unistd::{UnlinkatFlags, symlinkat, unlinkat},
};

use crate::{
    ClaimOwner, StoreError,
    store::{kill_point, lock::lock},
};

/// The timeout of a removal for the lock of the directory.
const REMOVAL_LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum granularity of the timestamps of directories: the kernel updates its coarse clock at every tick.
const CLOCK_TICK: Duration = Duration::from_millis(20);
/// The temporary name of a link that will replace another one. It is not a valid address.
const REPLACEMENT: &str = ".replacement";

/// A claimed address and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressClaim {
    /// The IP address.
    pub address: IpAddr,
    /// The owner of the claim.
    pub owner: ClaimOwner,
}

/// The result of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The claim was removed.
    Released,
    /// The address has another owner; the claim was not removed.
    NotOurs(ClaimOwner),
    /// The address was not claimed.
    Absent,
    /// The condition of the caller was not met; the claim was not removed.
    Kept,
}

/// The result of an attempt to claim an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClaimAttempt {
    /// The address is claimed by this owner, now or since an earlier attempt.
    Ours,
    /// The address is claimed by another owner.
    Theirs,
}

/// The directory of claims, opened.
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

    /// Claims an address if it is free.
    pub(crate) fn take(&self, address: IpAddr, owner: &str) -> Result<ClaimAttempt, StoreError> {
        let name = address.to_string();
        // The link may be removed between the two calls. Then try again, at most three times.
        for _ in 0..3 {
            kill_point::point();
            match symlinkat(owner, &self.directory, name.as_str()) {
                Ok(()) => return Ok(ClaimAttempt::Ours),
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(StoreError::io("create claim", self.path.join(name))(errno)),
            }
            match self.target(&name)? {
                Some(target) if target == owner => {}
                Some(_) => return Ok(ClaimAttempt::Theirs),
                None => continue,
            }
            // Claimed by an earlier attempt. Wait for the lock: GC may be removing the claim as an orphan.
            let _lock = self.lock()?;
            if self.target(&name)?.is_some_and(|target| target == owner) {
                return Ok(ClaimAttempt::Ours);
            }
        }
        Ok(ClaimAttempt::Theirs)
    }

    /// Returns the owner of an address; `None` if it is free.
    pub(crate) fn owner(&self, address: IpAddr) -> Result<Option<ClaimOwner>, StoreError> {
        Ok(self.target(&address.to_string())?.map(ClaimOwner::read))
    }

    /// Releases an address if `owner` has claimed it. `before` runs under the lock before the removal; if it returns `false`,
    /// the claim is kept.
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

    /// Reassigns a claim to another owner. rename(2) replaces the link atomically, so the address is never free.
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
        // A killed process may have left one. This process holds the lock, so no other process uses it.
        match unlinkat(&self.directory, REPLACEMENT, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(failed()(errno)),
        }
        kill_point::point();
        symlinkat(to, &self.directory, REPLACEMENT).map_err(failed())?;
        kill_point::point();
        renameat(&self.directory, REPLACEMENT, &self.directory, name.as_str()).map_err(failed())
    }

    /// Returns all claimed addresses, in the order of the directory.
    pub(crate) fn addresses(&self) -> Result<Vec<IpAddr>, StoreError> {
        let failed = || StoreError::io("list", &self.path);
        let mut addresses = Vec::new();
        let mut directory = Dir::from_fd(self.reopen()?.into()).map_err(failed())?;
        for entry in directory.iter() {
            let entry = entry.map_err(failed())?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            // Claims are in canonical form. Another spelling of an address is not a claim.
            if let Ok(address) = name.parse::<IpAddr>()
                && address.to_string() == name
            {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    /// Returns all claims, in the order of the directory.
    pub(crate) fn list(&self) -> Result<Vec<AddressClaim>, StoreError> {
        let mut claims = Vec::new();
        for address in self.addresses()? {
            if let Some(owner) = self.owner(address)? {
                claims.push(AddressClaim { address, owner });
            }
        }
        Ok(claims)
    }

    /// Returns a number that changes whenever a claim is added or removed; 0 must not be compared.
    ///
    /// It is the directory's mtime in nanoseconds, or 0 if the mtime is so recent that a further change might not alter it.
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
            // The entry is not a link. The address counts as claimed by an unknown owner.
            Err(Errno::EINVAL) => Ok(Some(OsString::new())),
            Err(errno) => Err(StoreError::io("read claim", self.path.join(name))(errno)),
        }
    }

    /// Locks the directory against other removals, so that the owner does not change between the check and the removal.
    fn lock(&self) -> Result<File, StoreError> {
        let directory = self.reopen()?;
        lock(&directory, &self.path, Instant::now() + REMOVAL_LOCK_TIMEOUT)?;
        Ok(directory)
    }

    /// Opens the directory again: flock(2) and the position of readdir(3) belong to an open file description.
    fn reopen(&self) -> Result<File, StoreError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = openat(&self.directory, ".", flags, Mode::empty());
        opened.map(File::from).map_err(StoreError::io("open", &self.path))
    }
}
