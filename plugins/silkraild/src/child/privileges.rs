//! Drops the privileges of a process.

use std::ffi::CStr;

use caps::{CapSet, Capability, CapsHashSet, errors::CapsError};
use nix::{errno::Errno, sys::prctl};

/// A privilege could not be dropped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DropPrivilegesError {
    #[error("cannot set no_new_privs: {0}")]
    NoNewPrivileges(#[from] Errno),
    #[error(transparent)]
    Capabilities(#[from] CapsError),
}

/// Drops every capability of the calling thread, which must be the only one, and sets `no_new_privs`: without it `execve(2)`
/// would restore the capabilities of root. `name` is what `ps` shows.
///
/// # Errors
/// [`DropPrivilegesError`]: the process must not serve then.
pub(crate) fn drop_all(name: &CStr) -> Result<(), DropPrivilegesError> {
    drop_all_but(name, &[])
}

/// As [`drop_all`], but keeps those of `needed` that the thread has.
///
/// # Errors
/// As there.
pub(crate) fn drop_all_but(name: &CStr, needed: &[Capability]) -> Result<(), DropPrivilegesError> {
    let _ = prctl::set_name(name);
    prctl::set_no_new_privs()?;
    let needed = needed.iter().copied().collect::<CapsHashSet>();
    let kept = caps::read(None, CapSet::Permitted)?.intersection(&needed).copied().collect();
    caps::clear(None, CapSet::Ambient)?;
    // The effective set must be a subset of the permitted set.
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &kept)?;
    }
    Ok(caps::clear(None, CapSet::Inheritable)?)
}
