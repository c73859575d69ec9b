//! One move at a time.

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

/// What `ib-sriov-cni` locks for the time of each of its calls, and for the same reason: see its pull request 30. Where
/// it is not in use there is no such file.
const IB_SRIOV_CNI_LOCK: &str = "/var/run/cni/ib-sriov/cni.lock";

/// What only root can open (mode 0200), below sysfs: no other user of the node can lock it.
const ROOT_LOCK_FILE: &str = "bus/pci/drivers_probe";

/// The directory of RDMA devices below sysfs, which everybody can open.
const SHARED_LOCK_DIR: &str = "class/infiniband";

/// How long is waited for a lock that any user of the node may hold: as long as moving one device takes, as a rule.
const SHARED_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long is waited for it once all others wait for us: until one of them that has looked at it has let it go.
const LAST_LOCK_TIMEOUT: Duration = Duration::from_millis(20);

/// How often the kernel's list of locks is read for one that must be in it.
const PROC_LOCKS_READS: usize = 5;

/// Whose turn it is to move an RDMA device. It ends with this value, and with the process.
///
/// A device that moves has no numbers for its character devices for a while, and another that moves or comes home
/// meanwhile takes them: [`crate::CharDevices`].
///
/// The lock is `flock(2)` on a file of sysfs that root alone can open. That is one for everybody who sees the node's devices,
/// whatever directory they keep their state in, and in whatever container they are, if the node's `/sys` is mounted there.
/// Other programs are welcome to take it: `(flock 9; rdma dev set … netns …) 9>>/sys/bus/pci/drivers_probe`. The directory
/// `/sys/class/infiniband` is locked too, for those who can take no other; whoever keeps that one is waited for only shortly,
/// and by all at the same time.
#[derive(Debug)]
#[must_use]
pub struct MoveLock {
    _files: Vec<File>,
}

impl MoveLock {
    /// Waits for the turn, until `deadline` at the latest.
    ///
    /// # Errors
    /// [`Error::MovesHeld`] says who has it; [`Error::NoRdma`].
    pub fn acquire(sysfs: &Sysfs, deadline: Instant) -> Result<Self, Error> {
        Self::acquire_with(&[Path::new(IB_SRIOV_CNI_LOCK)], sysfs, deadline)
    }

    /// That of `others` first: who waits for one of them must not keep the node's own from everybody meanwhile.
    fn acquire_with(others: &[&Path], sysfs: &Sysfs, deadline: Instant) -> Result<Self, Error> {
        let (roots, everybodys) = (sysfs.root().join(ROOT_LOCK_FILE), sysfs.root().join(SHARED_LOCK_DIR));
        let directory = open(&everybodys, LockAccess::Read)?.ok_or(Error::NoRdma)?;
        let mut files = Vec::new();
        for path in others {
            files.extend(open(path, LockAccess::Read)?.map(|file| wait(file, path, deadline)).transpose()?);
        }
        let Some(file) = open(&roots, LockAccess::Write)? else {
            files.push(wait(directory, &everybodys, deadline)?);
            return Ok(Self { _files: files });
        };
        // Everybody waits for that at the same time: nobody has the node's own meanwhile.
        drop(try_lock_within(directory, &everybodys, SHARED_LOCK_TIMEOUT)?);
        files.push(wait(file, &roots, deadline)?);
        let directory = open(&everybodys, LockAccess::Read)?.ok_or(Error::NoRdma)?;
        match try_lock_within(directory, &everybodys, LAST_LOCK_TIMEOUT)? {
            Ok(directory) => files.push(directory),
            Err(held) => warn!(%held, "moving all the same, for anybody may keep that locked"),
        }
        Ok(Self { _files: files })
    }
}

/// How a file is opened that is locked: one of mode 0200 cannot be read without the capability to read everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockAccess {
    Read,
    Write,
}

/// Opens what is locked; `None` if it is not there, or cannot be opened for writing because sysfs is mounted read-only.
fn open(path: &Path, access: LockAccess) -> Result<Option<File>, Error> {
    let mut options = OpenOptions::new();
    options.read(access == LockAccess::Read).write(access == LockAccess::Write);
    match options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ReadOnlyFilesystem) => Ok(None),
        Err(source) => Err(failed(path, source)),
    }
}

/// Locks a file that anybody may keep locked, if it is free soon; else who has it.
fn try_lock_within(file: File, path: &Path, within: Duration) -> Result<Result<File, Error>, Error> {
    match wait(file, path, Instant::now() + within) {
        Err(held @ Error::MovesHeld { .. }) => Ok(Err(held)),
        locked => locked.map(Ok),
    }
}

/// Locks a file. To ask again and again would let the kernel be idle between two moves, and who asks most often would
/// be served first: so a thread waits in the kernel's queue.
fn wait(file: File, path: &Path, deadline: Instant) -> Result<File, Error> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(fs::TryLockError::WouldBlock) => {}
        Err(fs::TryLockError::Error(source)) => return Err(failed(path, source)),
    }
    let began = Instant::now();
    let inode = file.metadata().map(|meta| meta.ino());
    let (give, taken) = mpsc::channel();
    // If it comes too late, nobody takes it, and it is unlocked when it is dropped.
    thread::spawn(move || give.send(file.lock().map(|()| file)));
    match taken.recv_timeout(deadline.saturating_duration_since(began)) {
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

/// The process that has locked a file: its number and its name.
///
/// The kernel tells a page of its list at a time: a lock that goes meanwhile makes it miss one that stays, so a list without
/// the lock says nothing yet.
fn holder(inode: u64) -> Option<String> {
    let look = || fs::read("/proc/locks").ok().and_then(|list| holder_in(&list, inode));
    let pid = iter::repeat_with(look).take(PROC_LOCKS_READS).flatten().next()?;
    let name = fs::read_to_string(PathBuf::from(format!("/proc/{pid}/comm"))).unwrap_or_default();
    Some(format!("process {pid} ({})", name.trim()))
}

fn holder_in(list: &[u8], inode: u64) -> Option<u32> {
    String::from_utf8_lossy(list).lines().find_map(|line| holder_of(line, inode))
}

/// `1: FLOCK  ADVISORY  WRITE 4711 00:17:12345 0 EOF`; who waits has `->` before `FLOCK`.
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
        let in_vain = MoveLock::acquire_with(&[], &sysfs, soon()).unwrap_err().to_string();
        let me = std::process::id().to_string();
        assert!(in_vain.contains(ROOT_LOCK_FILE) && in_vain.contains(&me), "{in_vain}");
        let (later, began) = (Instant::now() + Duration::from_secs(20), Instant::now());
        thread::scope(|scope| {
            let second = scope.spawn(|| MoveLock::acquire_with(&[], &sysfs, later).map(drop));
            thread::sleep(Duration::from_millis(20));
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap().unwrap();
        });
        assert!(began.elapsed() < Duration::from_secs(10));
        let _after = MoveLock::acquire_with(&[], &sysfs, soon()).unwrap();
    }

    #[test]
    fn what_another_program_locks_is_waited_for_where_it_is_in_use() {
        let (tree, sysfs) = node();
        let theirs = tree.path().join("cni.lock");
        drop(MoveLock::acquire_with(&[&theirs], &sysfs, soon()).unwrap());
        assert!(!theirs.exists(), "it is not ours to make");
        let held = File::create(&theirs).unwrap();
        held.lock().unwrap();
        let in_vain = MoveLock::acquire_with(&[&theirs], &sysfs, soon()).unwrap_err().to_string();
        assert!(in_vain.contains("cni.lock"), "{in_vain}");
        // Nobody else was kept waiting for that.
        drop(MoveLock::acquire_with(&[], &sysfs, soon()).unwrap());
        drop(held);
        drop(MoveLock::acquire_with(&[&theirs], &sysfs, soon()).unwrap());
    }

    #[test]
    fn what_anybody_may_keep_locked_is_not_waited_for_to_the_end() {
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
        assert!(MoveLock::acquire_with(&[], &sysfs, soon()).is_err(), "it is a lock all the same");
        drop(lock);
    }

    #[test]
    fn what_anybody_may_keep_locked_is_waited_for_by_all_at_the_same_time() {
        let (tree, sysfs) = node();
        let held = File::open(tree.path().join(SHARED_LOCK_DIR)).unwrap();
        held.lock().unwrap();
        let (began, calls) = (Instant::now(), 10);
        thread::scope(|scope| {
            for _ in 0..calls {
                scope.spawn(|| {
                    drop(MoveLock::acquire_with(&[], &sysfs, began + Duration::from_secs(60)).unwrap())
                });
            }
        });
        assert!(began.elapsed() < SHARED_LOCK_TIMEOUT * calls / 2, "{:?}", began.elapsed());
    }

    #[test]
    fn without_a_file_of_roots_the_directory_is_the_lock() {
        let (tree, sysfs) = node();
        fs::remove_file(tree.path().join(ROOT_LOCK_FILE)).unwrap();
        let first = MoveLock::acquire_with(&[], &sysfs, soon()).unwrap();
        let in_vain = MoveLock::acquire_with(&[], &sysfs, soon()).unwrap_err().to_string();
        assert!(in_vain.contains(SHARED_LOCK_DIR), "{in_vain}");
        drop(first);
        drop(MoveLock::acquire_with(&[], &sysfs, soon()).unwrap());
    }

    #[test]
    fn a_line_of_the_kernels_list_says_who() {
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
