//! RDMA devices for whose return from a pod that is gone a call has waited in vain.
//!
//! Such a device may never return: its driver may have no RDMA devices, or the kernel does not end the namespace. The first
//! call waits for it; the record keeps the next ones from waiting until the claim is released.

use std::path::PathBuf;

use sysfs::Function;

use crate::{Error, StateDir};

const DIR: &str = "awaited";

/// Whether a call has waited for a device. A record about another owner of the device is not about this one.
pub(crate) fn exists(state: &StateDir, function: &Function, owner: &str) -> Result<bool, Error> {
    Ok(statefile::read(&path(state, function))?.is_some_and(|bytes| bytes == owner.as_bytes()))
}

/// Records that a call has waited for a device.
pub(crate) fn write(state: &StateDir, function: &Function, owner: &str) -> Result<(), Error> {
    state.make_dir(DIR)?;
    Ok(statefile::replace(&path(state, function), 0o600, owner.as_bytes())?)
}

/// Removes the record of a device, if there is one.
pub(crate) fn remove(state: &StateDir, function: &Function) -> Result<(), Error> {
    Ok(statefile::remove(&path(state, function))?)
}

fn path(state: &StateDir, function: &Function) -> PathBuf {
    state.root().join(DIR).join(function.to_string())
}
