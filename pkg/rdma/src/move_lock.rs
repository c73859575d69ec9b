//! The lock for moving RDMA devices.

use std::{
    fs::{self, File, OpenOptions},
    io, iter,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use nix::libc;
use sysfs::Sysfs;
use tracing::warn;

use crate::Error;

/// The file that `ib-sriov-cni` locks during each of its calls, for the same reason: see its pull request 30. It exists
/// only on nodes that use that plugin.
const IB_SRIOV_CNI_LOCK: &str = "/var/run/cni/ib-sriov/cni.lock";

/// A file below sysfs that only root can open (mode 0200), so that no other user of the node can lock it.
const ROOT_LOCK_FILE: &str = "bus/pci/drivers_probe";

/// The directory of RDMA devices below sysfs, which every user can open.
const SHARED_LOCK_DIR: &str = "class/infiniband";

/// How long to wait for a lock that any user of the node may hold: the usual time of moving one device.
const SHARED_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait for it while holding the main lock: the time in which another waiter takes and releases it.
const LAST_LOCK_TIMEOUT: Duration = Duration::from_millis(20);

/// How often `/proc/locks` is read to find a lock that must be in it.
const PROC_LOCKS_READS: usize = 5;

/// The lock for moving RDMA devices. It is released when this value is dropped, or the process ends.
///
/// During a move a device has no numbers for its character devices, and another device that moves or returns at the same
/// time may take them: [`crate::CharDevices`].
///
/// The lock is `flock(2)` on a file of sysfs that only root can open. It is the same file for all programs that see the
/// node's devices, regardless of their state directory, and also in containers in which the node's `/sys` is mounted.
/// Other programs may take it too: `(flock 9; rdma dev set … netns …) 9>>/sys/bus/pci/drivers_probe`. The directory
/// `/sys/class/infiniband` is also locked, for programs that cannot open that file. As any user may hold that lock, the
/// wait for it is short, and all waiters wait at the same time.
#[derive(Debug)]
#[must_use]
pub struct MoveLock {
    _files: Vec<File>,
}

impl MoveLock {
    /// Waits for the lock until `deadline`.
    ///
    /// # Errors
    /// [`Error::MovesHeld`], with the holder, if the deadline passes; [`Error::NoRdma`].
    pub fn acquire(sysfs: &Sysfs, deadline: Instant) -> Result<Self, Error> {
        Self::acquire_with(&[Path::new(IB_SRIOV_CNI_LOCK)], sysfs, deadline)
    }

    /// Takes the locks of `others` first, so that a wait for one of them does not block the main lock.
    fn acquire_with(others: &[&Path], sysfs: &Sysfs, deadline: Instant) -> Result<Self, Error> {
        let (root_file, shared_dir) = (sysfs.root().join(ROOT_LOCK_FILE), sysfs.root().join(SHARED_LOCK_DIR));
        let directory = open(&shared_dir, LockAccess::Read)?.ok_or(Error::NoRdma)?;
        let mut files = Vec::new();
        for path in others {
            files.extend(open(path, LockAccess::Read)?.map(|file| wait(file, path, deadline)).transpose()?);
        }
        let Some(file) = open(&root_file, LockAccess::Write)? else {
            files.push(wait(directory, &shared_dir, deadline)?);
            return Ok(Self { _files: files });
        };
        // All waiters wait for the directory at the same time, none of them holding the main lock.
        drop(try_lock_within(directory, &shared_dir, SHARED_LOCK_TIMEOUT)?);
        files.push(wait(file, &root_file, deadline)?);
        let directory = open(&shared_dir, LockAccess::Read)?.ok_or(Error::NoRdma)?;
        match try_lock_within(directory, &shared_dir, LAST_LOCK_TIMEOUT)? {
            Ok(directory) => files.push(directory),
            Err(held) => warn!(%held, "moving an RDMA device without this lock, which any user may hold"),
        }
        Ok(Self { _files: files })
    }
}

/// How the file of a lock is opened. A file of mode 0200 cannot be opened for reading without `CAP_DAC_OVERRIDE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockAccess {
    Read,
    Write,
}

/// Opens the file of a lock; `None` if it does not exist, or cannot be opened for writing because sysfs is mounted
/// read-only.
fn open(path: &Path, access: LockAccess) -> Result<Option<File>, Error> {
    let mut options = OpenOptions::new();
    options.read(access == LockAccess::Read).write(access == LockAccess::Write);
    match options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ReadOnlyFilesystem) => Ok(None),
        Err(source) => Err(failed(path, source)),
    }
}

/// Locks a file that any user may hold. The inner error is the holder, if the file is not free in time.
fn try_lock_within(file: File, path: &Path, within: Duration) -> Result<Result<File, Error>, Error> {
    match wait(file, path, Instant::now() + within) {
        Err(held @ Error::MovesHeld { .. }) => Ok(Err(held)),
        locked => locked.map(Ok),
    }
}

/// Locks a file. A thread waits in the kernel's queue: with polling there would be idle time between two moves, and the
/// process that polls most often would be served first.
fn wait(file: File, path: &Path, deadline: Instant) -> Result<File, Error> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(fs::TryLockError::WouldBlock) => {}
        Err(fs::TryLockError::Error(source)) => return Err(failed(path, source)),
    }
    let began = Instant::now();
    let inode = file.metadata().map(|meta| meta.ino());
    let (sender, receiver) = mpsc::channel();
    // If the lock comes too late, there is no receiver, and dropping the file unlocks it.
    thread::spawn(move || sender.send(file.lock().map(|()| file)));
    match receiver.recv_timeout(deadline.saturating_duration_since(began)) {
        Ok(locked) => locked.map_err(|source| failed(path, source)),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(Error::MovesHeld {
            path: path.to_owned(),
            waited: began.elapsed(),
            holder: inode.ok().and_then(holder),
        }),
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Lock { path: path.to_owned(), source }
}

/// Returns the process that has locked a file: `process 4711 (rdma)`.
///
/// The kernel returns `/proc/locks` in pages. A lock that is released between two reads may make it skip another one, so the
/// list is read several times.
fn holder(inode: u64) -> Option<String> {
    let search = || fs::read("/proc/locks").ok().and_then(|list| holder_in(&list, inode));
    let pid = iter::repeat_with(search).take(PROC_LOCKS_READS).flatten().next()?;
    let name = fs::read_to_string(PathBuf::from(format!("/proc/{pid}/comm"))).unwrap_or_default();
    Some(format!("process {pid} ({})", name.trim()))
}

fn holder_in(list: &[u8], inode: u64) -> Option<u32> {
    String::from_utf8_lossy(list).lines().find_map(|line| holder_of(line, inode))
}

/// Parses `1: FLOCK  ADVISORY  WRITE 4711 00:17:12345 0 EOF`; a line of a waiter has `->` before `FLOCK`.
fn holder_of(line: &str, inode: u64) -> Option<u32> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, pid, file, ..] = words.as_slice() else { return None };
    let (_, number) = file.rsplit_once(':')?;
    if number.parse() == Ok(inode) { pid.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> (tempfile::TempDir, Sysfs) {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join(SHARED_LOCK_DIR)).unwrap();
        fs::create_dir_all(tree.path().join(ROOT_LOCK_FILE).parent().unwrap()).unwrap();
        File::create(tree.path().join(ROOT_LOCK_FILE)).unwrap();
        let sysfs = Sysfs::at(tree.path());
        (tree, sysfs)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[test]
    fn the_second_waits_for_the_first_and_not_longer() {
        let (_tree, sysfs) = node();
        let first = MoveLock::acquire_with(&[], &sysfs, soon()).unwrap();
        let refused = MoveLock::acquire_with(&[], &sysfs, soon()).unwrap_err().to_string();
        let me = std::process::id().to_string();
        assert!(refused.contains(ROOT_LOCK_FILE) && refused.contains(&me), "{refused}");
        let later = Instant::now() + Duration::from_secs(20);
        thread::scope(|scope| {
            let second = scope.spawn(|| MoveLock::acquire_with(&[], &sysfs, later).map(drop));
            thread::sleep(Duration::from_millis(20));
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap().unwrap();
        });
        let _after = MoveLock::acquire_with(&[], &sysfs, soon()).unwrap();
    }

    #[test]
    fn the_lock_of_another_program_is_taken_if_it_exists() {
        let (tree, sysfs) = node();
        let theirs = tree.path().join("cni.lock");
        drop(MoveLock::acquire_with(&[&theirs], &sysfs, soon()).unwrap());
        assert!(!theirs.exists(), "the file is not created");
        let held = File::create(&theirs).unwrap();
        held.lock().unwrap();
        let refused = MoveLock::acquire_with(&[&theirs], &sysfs, soon()).unwrap_err().to_string();
        assert!(refused.contains("cni.lock"), "{refused}");
        // The main lock is not held during that wait.
        drop(MoveLock::acquire_with(&[], &sysfs, soon()).unwrap());
        drop(held);
        // All three locks are held until the end.
        let files = [theirs.clone(), tree.path().join(ROOT_LOCK_FILE), tree.path().join(SHARED_LOCK_DIR)];
        let locked = || files.each_ref().map(|path| File::open(path).unwrap().try_lock().is_err());
        let lock = MoveLock::acquire_with(&[&theirs], &sysfs, soon()).unwrap();
        assert_eq!(locked(), [true; 3]);
        drop(lock);
        // A process that another test starts has the files until it executes its program.
        let end = Instant::now() + Duration::from_secs(20);
        while locked() != [false; 3] {
            assert!(Instant::now() < end, "{:?}", locked());
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_lock_that_any_user_may_hold_is_not_waited_for_to_the_end() {
        let (tree, sysfs) = node();
        let held = File::open(tree.path().join(SHARED_LOCK_DIR)).unwrap();
        held.lock().unwrap();
        let began = Instant::now();
        let lock = MoveLock::acquire_with(&[], &sysfs, began + Duration::from_secs(60)).unwrap();
        assert!(
            (SHARED_LOCK_TIMEOUT..Duration::from_secs(30)).contains(&began.elapsed()),
            "{:?}",
            began.elapsed()
        );
        assert!(MoveLock::acquire_with(&[], &sysfs, soon()).is_err(), "the main lock is held anyway");
        drop(lock);
    }

    #[test]
    fn a_lock_that_any_user_may_hold_is_waited_for_by_all_at_once() {
        let (tree, sysfs) = node();
        let held = File::open(tree.path().join(SHARED_LOCK_DIR)).unwrap();
        held.lock().unwrap();
        let (began, calls) = (Instant::now(), 60);
        thread::scope(|scope| {
            for _ in 0..calls {
                scope.spawn(|| {
                    drop(MoveLock::acquire_with(&[], &sysfs, began + Duration::from_secs(120)).unwrap())
                });
            }
        });
        assert!(began.elapsed() < SHARED_LOCK_TIMEOUT * calls / 2, "{:?}", began.elapsed());
    }

    #[test]
    fn without_the_file_of_root_the_directory_is_the_lock() {
        let (tree, sysfs) = node();
        fs::remove_file(tree.path().join(ROOT_LOCK_FILE)).unwrap();
        let first = MoveLock::acquire_with(&[], &sysfs, soon()).unwrap();
        let refused = MoveLock::acquire_with(&[], &sysfs, soon()).unwrap_err().to_string();
        assert!(refused.contains(SHARED_LOCK_DIR), "{refused}");
        drop(first);
        drop(MoveLock::acquire_with(&[], &sysfs, soon()).unwrap());
    }

    #[test]
    fn the_holder_is_that_of_the_file_among_all_locks() {
        let list = b"1: POSIX  ADVISORY  WRITE 1 00:17:12345 0 EOF\n2: FLOCK  ADVISORY  WRITE 2 00:17:1 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 4711 00:17:12345 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 5 00:17:12345 0 EOF\n";
        assert_eq!((holder_in(list, 12345), holder_in(list, 7)), (Some(4711), None));
    }

    #[test]
    fn a_line_of_the_kernels_list_has_the_holder() {
        let line = "3: FLOCK  ADVISORY  WRITE 4711 00:17:12345 0 EOF";
        assert_eq!(holder_of(line, 12345), Some(4711));
        assert_eq!(holder_of(line, 345), None);
        assert_eq!(holder_of("3: -> FLOCK  ADVISORY  WRITE 4712 00:17:12345 0 EOF", 12345), None);
        assert_eq!(holder_of("", 1), None);
    }

    #[test]
    fn a_node_without_rdma_has_nothing_to_lock() {
        let tree = tempfile::tempdir().unwrap();
        let none = MoveLock::acquire_with(&[], &Sysfs::at(tree.path()), soon());
        assert!(matches!(none, Err(Error::NoRdma)));
    }
}
