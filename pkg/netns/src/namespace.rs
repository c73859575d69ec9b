//! An open network namespace.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    thread,
};

use nix::{
    libc,
    sched::{CloneFlags, setns, unshare},
    sys::statfs::{FsType, fstatfs},
};

use crate::{NetNsId, cookie};

/// `NSFS_MAGIC` of `linux/magic.h`.
pub(crate) const NSFS: FsType = FsType(0x6e73_6673);

/// The namespace of the calling thread. `/proc/self` is that of the main thread.
const THREAD_NETNS_PATH: &str = "/proc/thread-self/ns/net";

/// An open network namespace. The file descriptor keeps it alive.
#[derive(Debug)]
pub struct NetNs {
    file: File,
    id: NetNsId,
    path: PathBuf,
}

/// Errors of opening or entering a namespace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path does not exist: the namespace is gone, or never existed.
    #[error("network namespace {}: not found", path.display())]
    Missing {
        /// The path that was tried.
        path: PathBuf,
    },
    /// The file is not on nsfs.
    #[error("network namespace {}: not a namespace file (unknown FS magic {:#x})", path.display(), magic.0)]
    NotANamespace {
        /// The path that was tried.
        path: PathBuf,
        /// The magic number of the file system.
        magic: FsType,
    },
    /// The file could not be opened.
    #[error("network namespace {}: {source}", path.display())]
    Open {
        /// The path that was tried.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },
    /// setns(2) or unshare(2) failed.
    #[error("cannot enter network namespace {}: {source}", path.display())]
    Enter {
        /// The path from which the namespace was opened.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },
}

impl NetNs {
    /// Opens the namespace that `path` currently refers to.
    ///
    /// # Errors
    /// [`Error::Missing`] if the file does not exist, [`Error::NotANamespace`] if it is not a namespace file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        // O_NONBLOCK: an untrusted path may be a FIFO, and opening one must not block.
        let file = open_file(path, libc::O_NONBLOCK | libc::O_NOCTTY)?;
        require_nsfs(&file, path)?;
        Self::of(file, path)
    }

    fn of(file: File, path: &Path) -> Result<Self, Error> {
        let meta = file.metadata().map_err(|source| Error::Open { path: path.to_owned(), source })?;
        Ok(Self { file, id: NetNsId::new(meta.dev(), meta.ino()), path: path.to_owned() })
    }

    /// Opens a namespace at a path that a process of a pod may have chosen, as it can for its own mounts. Another file is not
    /// opened: to open a device may have an effect, such as starting a watchdog.
    ///
    /// # Errors
    /// As [`NetNs::open`].
    pub fn open_untrusted(path: &Path) -> Result<Self, Error> {
        let located = open_file(path, libc::O_PATH)?;
        require_nsfs(&located, path)?;
        let opened = Self::open(Path::new(&format!("/proc/self/fd/{}", located.as_raw_fd())))?;
        Ok(Self { path: path.to_owned(), ..opened })
    }

    /// Opens the namespace of the calling thread.
    ///
    /// # Errors
    /// As [`NetNs::open`]; `/proc` must be mounted.
    pub fn current() -> Result<Self, Error> {
        let path = Path::new(THREAD_NETNS_PATH);
        Self::of(open_file(path, 0)?, path)
    }

    /// Creates a namespace, in a temporary thread. It ends when this value is dropped.
    ///
    /// # Errors
    /// [`Error::Enter`] if it cannot be created (this requires `CAP_SYS_ADMIN`).
    pub fn make() -> Result<Self, Error> {
        let make = || {
            let refused =
                |errno: nix::Error| Error::Enter { path: THREAD_NETNS_PATH.into(), source: errno.into() };
            #[expect(
                clippy::disallowed_methods,
                reason = "the thread was started for this call, and ends here"
            )]
            unshare(CloneFlags::CLONE_NEWNET).map_err(refused)?;
            Self::current()
        };
        let refused = || Error::Enter { path: THREAD_NETNS_PATH.into(), source: io::ErrorKind::Other.into() };
        thread::scope(|scope| scope.spawn(make).join()).map_err(|_| refused())?
    }

    /// Returns whether `path` still refers to the namespace with this ID.
    ///
    /// # Errors
    /// If the path cannot be opened although it may exist: such a namespace does not count as gone.
    pub fn is_still_at(path: &Path, id: NetNsId) -> Result<bool, Error> {
        match Self::open(path) {
            Ok(netns) => netns.is(id),
            Err(Error::Missing { .. } | Error::NotANamespace { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the ID, which is unique among the existing namespaces. Only after [`NetNs::identified`] is it also
    /// different from the IDs of former namespaces.
    pub fn id(&self) -> NetNsId {
        self.id
    }

    /// Adds the cookie to the ID, which distinguishes it from a later namespace with the same inode number. This
    /// takes nine system calls, two of which are `setns`.
    ///
    /// # Errors
    /// As [`NetNs::run`].
    pub fn identified(mut self) -> Result<Self, Error> {
        self.id.cookie = self.run(cookie::read)?;
        Ok(self)
    }

    /// Like [`NetNs::identified`], combined with `work` in one visit: see [`NetNs::run_from`].
    ///
    /// # Errors
    /// As [`NetNs::run`].
    pub fn identified_with<T>(mut self, origin: &Self, work: impl FnOnce() -> T) -> Result<(Self, T), Error> {
        let (cookie, result) = self.run_from(origin, || (cookie::read(), work()))?;
        self.id.cookie = cookie;
        Ok((self, result))
    }

    /// Returns whether this is the namespace with that ID. If a cookie is missing, only the inode numbers are compared.
    ///
    /// # Errors
    /// As [`NetNs::run`].
    pub fn is(&self, id: NetNsId) -> Result<bool, Error> {
        if self.id != id || id.cookie.is_none() || self.id.cookie.is_some() {
            return Ok(self.id.is(id));
        }
        Ok(NetNsId { cookie: self.run(cookie::read)?, ..self.id }.is(id))
    }

    /// Returns the path from which the namespace was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` in this namespace, on the calling thread, and returns to the previous namespace.
    ///
    /// # Errors
    /// [`Error::Enter`] if `setns` failed (it requires `CAP_SYS_ADMIN`).
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        self.run_from(&Self::current()?, work)
    }

    /// Like [`NetNs::run`], for a thread that enters several namespaces: `origin` is its current namespace.
    ///
    /// # Errors
    /// As [`NetNs::run`].
    pub fn run_from<T>(&self, origin: &Self, work: impl FnOnce() -> T) -> Result<T, Error> {
        let enter = |errno: nix::Error| Error::Enter { path: self.path.clone(), source: errno.into() };
        #[expect(clippy::disallowed_methods, reason = "the thread returns when `guard` is dropped")]
        setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(enter)?;
        // Created after setns: if entering fails, there is no need to return.
        let guard = ReturnGuard(origin);
        let result = work();
        drop(guard);
        Ok(result)
    }
}

/// Returns the thread to its previous namespace, also on panic.
struct ReturnGuard<'a>(&'a NetNs);

impl Drop for ReturnGuard<'_> {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "returns to the previous namespace")]
        let returned = setns(&self.0.file, CloneFlags::CLONE_NEWNET);
        if returned.is_err() {
            // Not expected: the thread was in this namespace, and it is open. Never continue in the wrong namespace.
            std::process::abort();
        }
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens a file with these flags besides `O_CLOEXEC`.
fn open_file(path: &Path, flags: libc::c_int) -> Result<File, Error> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_CLOEXEC | flags).open(path);
    opened.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
        _ => Error::Open { path: path.to_owned(), source },
    })
}

fn require_nsfs(file: &File, path: &Path) -> Result<(), Error> {
    let open = |errno: nix::Error| Error::Open { path: path.to_owned(), source: errno.into() };
    let magic = fstatfs(file).map_err(open)?.filesystem_type();
    if magic == NSFS { Ok(()) } else { Err(Error::NotANamespace { path: path.to_owned(), magic }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_namespace_has_the_inode_that_the_kernel_shows() {
        let own = NetNs::current().unwrap();
        let shown = std::fs::read_link(THREAD_NETNS_PATH).unwrap();
        assert_eq!(shown.to_str().unwrap(), own.id().to_string());
    }

    #[test]
    fn a_missing_path_and_another_file_are_different_errors() {
        assert!(matches!(NetNs::open(Path::new("/nonexistent/ns")), Err(Error::Missing { .. })));
        assert!(matches!(NetNs::open(Path::new("/proc/self/status")), Err(Error::NotANamespace { .. })));
        assert!(matches!(NetNs::open(Path::new("/")), Err(Error::NotANamespace { .. })));
    }

    #[test]
    fn a_path_that_cannot_be_opened_does_not_count_as_gone() {
        let own = NetNs::current().unwrap().id();
        assert!(NetNs::is_still_at(Path::new(THREAD_NETNS_PATH), own).unwrap());
        assert!(!NetNs::is_still_at(Path::new(THREAD_NETNS_PATH), NetNsId::new(own.dev, 1)).unwrap());
        for gone in ["/nonexistent/ns", "/proc/self/status"] {
            assert!(!NetNs::is_still_at(Path::new(gone), own).unwrap());
        }
        if let Ok(known) = NetNs::current().unwrap().identified() {
            let former = NetNsId { cookie: known.id().cookie.map(|cookie| cookie + 1), ..own };
            let is = |id| [NetNs::current().unwrap().is(id).unwrap(), known.is(id).unwrap()];
            assert_eq!([is(own), is(known.id()), is(former)], [[true; 2], [true; 2], [false; 2]]);
            assert!(!NetNs::is_still_at(Path::new(THREAD_NETNS_PATH), former).unwrap());
            let (same, result) = NetNs::current().unwrap().identified_with(&known, || 7).unwrap();
            assert_eq!((same.id().cookie, result), (known.id().cookie, 7));
        }
        let dir = tempfile::tempdir().unwrap();
        let symlink_loop = dir.path().join("a");
        std::os::unix::fs::symlink("a", &symlink_loop).unwrap();
        assert!(NetNs::is_still_at(&symlink_loop, own).is_err());
    }

    #[test]
    fn the_thread_returns_also_after_a_panic() {
        let own = NetNs::current().unwrap();
        own.run(|| ()).unwrap();
        let panicked = std::panic::catch_unwind(|| own.run(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(NetNs::current().unwrap().id(), own.id());
    }

    #[test]
    fn a_new_namespace_does_not_change_that_of_the_calling_thread() {
        let own = NetNs::current().unwrap().id();
        match NetNs::make() {
            Ok(made) => assert_ne!(made.id(), own),
            Err(refused) => assert!(!nix::unistd::geteuid().is_root(), "{refused}"),
        }
        assert_eq!(NetNs::current().unwrap().id(), own);
    }

    #[test]
    fn another_kind_of_namespace_cannot_be_entered() {
        let mount = NetNs::open(Path::new("/proc/self/ns/mnt")).unwrap();
        assert!(matches!(mount.run(|| ()), Err(Error::Enter { .. })));
    }
}
