//! The directories of the store.

use std::{
    fs::{self, DirBuilder},
    io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open as open_file},
    sys::stat::Mode,
};

use crate::{StoreError, store::kill_point};

/// Returns the boot ID if it is valid. It becomes the name of a directory.
pub(crate) fn checked(boot_id: &str) -> Result<&str, StoreError> {
    let allowed = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-');
    let valid = boot_id.len() == 36 && boot_id.bytes().all(allowed);
    if valid { Ok(boot_id) } else { Err(StoreError::BootId(boot_id.to_owned())) }
}

/// Returns the directory of the store of a boot.
pub(crate) fn root(state: &Path, boot_id: &str) -> PathBuf {
    state.join("ipam").join(boot_id)
}

/// Opens a directory; `None` if it does not exist.
pub(crate) fn open(path: &Path) -> Result<Option<OwnedFd>, StoreError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match open_file(path, flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(StoreError::io("open", path)(errno)),
    }
}

/// Creates the directories of the store that do not exist. Returns whether this process created the one of the boot.
pub(crate) fn make(state: &Path, boot_id: &str) -> Result<bool, StoreError> {
    let root = root(state, checked(boot_id)?);
    let above = state.join("ipam");
    kill_point::point();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&above);
    made.map_err(StoreError::io("create directory", above))?;
    let first = make_one(&root)?;
    make_one(&root.join("claims"))?;
    make_one(&root.join("maps"))?;
    Ok(first)
}

fn make_one(path: &Path) -> Result<bool, StoreError> {
    kill_point::point();
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(StoreError::io("create directory", path)(error)),
    }
}

/// Returns the names of the sibling directories that are boot IDs.
pub(crate) fn siblings(root: &Path) -> Result<Vec<String>, StoreError> {
    let Some(parent) = root.parent() else { return Ok(Vec::new()) };
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(StoreError::io("list", parent))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(StoreError::io("list", parent))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path != root && checked(name).is_ok() {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

/// Removes a directory recursively. Succeeds if it does not exist.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    kill_point::point();
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
        _ => Ok(()),
    }
}
