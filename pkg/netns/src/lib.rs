//! A network namespace as a value.
//!
//! The kernel keeps the network namespace per *thread*, and a socket belongs for ever to the namespace it
//! was created in. So a program is elsewhere only for a moment: it enters the namespace, does one thing there
//! (opens a socket, writes a sysctl) and comes back. [`NetNs::run`] does that, and is the only place of the
//! project that calls `setns`. A thread of its own for each such moment would be a seventh of an ADD's time on
//! an idle machine, and a third on a busy one.
//!
//! Two traps:
//! * `/proc/sys/net` shows the namespace of the thread that opens it; `/sys` shows that of whoever
//!   *mounted* it. A pod's links and RDMA devices never appear in the node's `/sys/class`.
//! * A path like `/proc/1234/ns/net` may come to mean another namespace when the process ends. Compare
//!   [`NetNsId`]s, never paths.

#![forbid(unsafe_code)]

mod cookie;
mod holders;
mod id;
mod liveness;
mod node;
mod others;

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    thread,
};

pub use holders::NotOnNode;
pub use id::NetNsId;
pub use liveness::{LiveNetns, NetnsLiveness, sees_every_process};
use nix::{
    libc,
    sched::{CloneFlags, setns, unshare},
    sys::statfs::{FsType, fstatfs},
};
pub use node::{require_node_netns, require_node_netns_if_known};
pub use others::{OtherNetNs, Process};

/// `NSFS_MAGIC` of `linux/magic.h`.
const NSFS: FsType = FsType(0x6e73_6673);

/// The calling thread's own namespace. `/proc/self` would be the main thread's.
const THREAD_NETNS_PATH: &str = "/proc/thread-self/ns/net";

/// An open network namespace. It lives at least as long as this value.
#[derive(Debug)]
pub struct NetNs {
    file: File,
    id: NetNsId,
    path: PathBuf,
}

/// A namespace could not be opened or entered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no file at the path: the namespace is gone, or never was.
    #[error("network namespace {}: not found", path.display())]
    Missing {
        /// The path that was tried.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("network namespace {}: not a namespace file (unknown FS magic {:#x})", path.display(), magic.0)]
    NotANamespace {
        /// The path that was tried.
        path: PathBuf,
        /// The file system's magic number.
        magic: FsType,
    },
    /// The file could not be opened.
    #[error("network namespace {}: {source}", path.display())]
    Open {
        /// The path that was tried.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The calling thread could not enter.
    #[error("enter network namespace {}: {source}", path.display())]
    Enter {
        /// The path the namespace was opened by.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl NetNs {
    /// Opens the namespace that `path` names now.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such file, [`Error::NotANamespace`] if it is no namespace's.
    pub fn open(path: &Path) -> Result<Self, Error> {
        // O_NONBLOCK: a path from outside may be a FIFO, and opening one must not hang.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
                _ => Error::Open { path: path.to_owned(), source },
            })?;
        let open = |source: io::Error| Error::Open { path: path.to_owned(), source };
        let magic = fstatfs(&file).map_err(|errno| open(errno.into()))?.filesystem_type();
        if magic != NSFS {
            return Err(Error::NotANamespace { path: path.to_owned(), magic });
        }
        let meta = file.metadata().map_err(open)?;
        Ok(Self { file, id: NetNsId::new(meta.dev(), meta.ino()), path: path.to_owned() })
    }

    /// The namespace the calling thread is in.
    ///
    /// # Errors
    /// As [`NetNs::open`]; `/proc` must be mounted.
    pub fn current() -> Result<Self, Error> {
        Self::open(Path::new(THREAD_NETNS_PATH))
    }

    /// A new namespace, which ends with this value.
    ///
    /// # Errors
    /// [`Error::Enter`] if it cannot be made (it needs `CAP_SYS_ADMIN`).
    pub fn make() -> Result<Self, Error> {
        let make = || {
            let refused =
                |errno: nix::Error| Error::Enter { path: THREAD_NETNS_PATH.into(), source: errno.into() };
            #[expect(clippy::disallowed_methods, reason = "the thread is of this line, and ends here")]
            unshare(CloneFlags::CLONE_NEWNET).map_err(refused)?;
            Self::current()
        };
        let refused = || Error::Enter { path: THREAD_NETNS_PATH.into(), source: io::ErrorKind::Other.into() };
        thread::scope(|scope| scope.spawn(make).join()).map_err(|_| refused())?
    }

    /// Whether `path` still names the namespace of that identity.
    ///
    /// # Errors
    /// If it cannot be opened for another reason than that it is gone: that does not mean that it is.
    pub fn is_still_at(path: &Path, id: NetNsId) -> Result<bool, Error> {
        match Self::open(path) {
            Ok(netns) => netns.is(id),
            Err(Error::Missing { .. } | Error::NotANamespace { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What tells this namespace from others that live; from those that lived before only after
    /// [`NetNs::identified`].
    pub fn id(&self) -> NetNsId {
        self.id
    }

    /// The same with an identity by which it is known for ever, also from a later one with its inode number. That
    /// takes nine system calls, two of which are `setns`.
    ///
    /// # Errors
    /// As [`NetNs::run`].
    pub fn identified(mut self) -> Result<Self, Error> {
        self.id.cookie = self.run(cookie::read)?;
        Ok(self)
    }

    /// As [`NetNs::identified`], on the way of `work`: see [`NetNs::run_from`].
    ///
    /// # Errors
    /// As [`NetNs::run`].
    pub fn identified_with<T>(mut self, home: &Self, work: impl FnOnce() -> T) -> Result<(Self, T), Error> {
        let (cookie, result) = self.run_from(home, || (cookie::read(), work()))?;
        self.id.cookie = cookie;
        Ok((self, result))
    }

    /// Whether this is the namespace of that identity. Where a cookie is missing, the numbers decide.
    ///
    /// # Errors
    /// As [`NetNs::run`].
    pub fn is(&self, id: NetNsId) -> Result<bool, Error> {
        if self.id != id || id.cookie.is_none() || self.id.cookie.is_some() {
            return Ok(self.id.is(id));
        }
        Ok(NetNsId { cookie: self.run(cookie::read)?, ..self.id }.is(id))
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` inside this namespace, on the calling thread, and comes back.
    ///
    /// # Errors
    /// [`Error::Enter`] if `setns` was refused (it needs `CAP_SYS_ADMIN`).
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        self.run_from(&Self::current()?, work)
    }

    /// As [`NetNs::run`], for a thread that has looked where it is and goes to many: `home` is its own namespace.
    ///
    /// # Errors
    /// As [`NetNs::run`].
    pub fn run_from<T>(&self, home: &Self, work: impl FnOnce() -> T) -> Result<T, Error> {
        let enter = |errno: nix::Error| Error::Enter { path: self.path.clone(), source: errno.into() };
        #[expect(clippy::disallowed_methods, reason = "the thread comes back when `back` is dropped")]
        setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(enter)?;
        // Only now: who may not enter may not come back either, and need not.
        let back = ReturnGuard(home);
        let result = work();
        drop(back);
        Ok(result)
    }
}

/// Brings the thread back to the namespace it came from, also when it panics.
struct ReturnGuard<'a>(&'a NetNs);

impl Drop for ReturnGuard<'_> {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "the way back")]
        let returned = setns(&self.0.file, CloneFlags::CLONE_NEWNET);
        if returned.is_err() {
            // It cannot happen: we were there, and hold it open. Nothing may go on in the wrong namespace.
            std::process::abort();
        }
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_namespace_has_the_inode_the_kernel_shows() {
        let own = NetNs::current().unwrap();
        let shown = std::fs::read_link(THREAD_NETNS_PATH).unwrap();
        assert_eq!(shown.to_str().unwrap(), own.id().to_string());
    }

    #[test]
    fn a_missing_path_and_a_foreign_file_are_told_apart() {
        assert!(matches!(NetNs::open(Path::new("/nonexistent/ns")), Err(Error::Missing { .. })));
        assert!(matches!(NetNs::open(Path::new("/proc/self/status")), Err(Error::NotANamespace { .. })));
        assert!(matches!(NetNs::open(Path::new("/")), Err(Error::NotANamespace { .. })));
    }

    #[test]
    fn a_path_that_cannot_be_opened_may_name_what_it_did() {
        let own = NetNs::current().unwrap().id();
        assert!(NetNs::is_still_at(Path::new(THREAD_NETNS_PATH), own).unwrap());
        assert!(!NetNs::is_still_at(Path::new(THREAD_NETNS_PATH), NetNsId::new(own.dev, 1)).unwrap());
        for gone in ["/nonexistent/ns", "/proc/self/status"] {
            assert!(!NetNs::is_still_at(Path::new(gone), own).unwrap());
        }
        let dir = tempfile::tempdir().unwrap();
        let circle = dir.path().join("a");
        std::os::unix::fs::symlink("a", &circle).unwrap();
        assert!(NetNs::is_still_at(&circle, own).is_err());
    }

    #[test]
    fn the_thread_comes_back_also_from_a_panic() {
        let own = NetNs::current().unwrap();
        own.run(|| ()).unwrap();
        let panicked = std::panic::catch_unwind(|| own.run(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(NetNs::current().unwrap().id(), own.id());
    }

    #[test]
    fn a_namespace_of_our_own_is_another_one_and_the_thread_stays_where_it_is() {
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
