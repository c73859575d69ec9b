//! An open directory, below which files are read without walking its path again.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags, RawDir, open, openat},
    io::{Errno, read},
};

use crate::Error;

/// An open directory. The path to a detached sysfs leads through `/proc`, which takes longer than reading a file.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    dir: OwnedFd,
}

impl Directory {
    /// Opens a directory; `None` if it does not exist.
    pub(crate) fn open(path: PathBuf) -> Result<Option<Self>, Error> {
        match open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(dir) => Ok(Some(Self { path, dir })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::Io { path, source: errno.into() }),
        }
    }

    /// Returns the path of a file below the directory, for errors.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// Reads a file without trailing white space; `None` if it does not exist.
    pub(crate) fn text(&self, file: &str) -> Result<Option<String>, Error> {
        let mut page = [0; 4096];
        let text = openat(&self.dir, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|file| read(file, &mut page));
        match text {
            Ok(length) => Ok(Some(trimmed(&page[..length]))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::Io { path: self.path(file), source: io::Error::from(errno) }),
        }
    }
}

/// Returns the text of an attribute without trailing white space.
pub(crate) fn trimmed(attribute: &[u8]) -> String {
    String::from_utf8_lossy(attribute).trim_end().to_owned()
}

/// Returns the names in a directory, with a buffer on the stack. musl calls mmap(2) and munmap(2) for each `opendir(3)`.
pub(crate) fn list(base: impl AsFd, path: &Path) -> Result<Vec<String>, Errno> {
    let dir = openat(base, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(dir, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}
