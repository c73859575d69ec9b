//! What holds network namespaces: threads that are in them, mounts, and open files.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::NetNsId;

/// `PROC_PID_INIT_INO` of `linux/proc_ns.h`: the initial PID namespace, which shows all processes.
pub(crate) const INIT_PID_NS: &str = "pid:[4026531836]";

/// What keeps a namespace alive, with a path that refers to the namespace.
#[derive(Debug)]
pub(crate) enum NetnsHolder {
    /// A thread of a process: `/proc/<pid>/task/<tid>/ns/net`.
    Thread(PathBuf),
    /// A bind mount of the namespace file: `/run/netns/a`.
    Mount(PathBuf),
    /// An open file of a process: `/proc/<pid>/fd/<number>`.
    File(PathBuf),
}

impl NotOnNode {
    /// Whether this process is not permitted to see all processes of the node, and never will be.
    pub fn is_not_permitted(&self) -> bool {
        match self {
            Self::NotOnTheNode { .. } | Self::Elsewhere { .. } => true,
            Self::Unreadable { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            Self::TooLong { .. } | Self::Changing { .. } => false,
        }
    }
}

/// How long reading all processes may take. A pod can have millions of open files, and a DEL has 110 s.
const SCAN_TIME: Duration = Duration::from_secs(20);

/// The end of the time for reading all processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanDeadline(Instant);

impl ScanDeadline {
    pub(crate) fn new() -> Self {
        Self(Instant::now() + SCAN_TIME)
    }

    /// Fails if the time is over, with what is being read.
    fn check(self, reading: &Path) -> Result<(), NotOnNode> {
        if Instant::now() < self.0 {
            return Ok(());
        }
        Err(NotOnNode::TooLong { reading: reading.to_owned(), seconds: SCAN_TIME.as_secs() })
    }
}

/// A callback with the inode number and a holder of each namespace.
pub(crate) type NoteHolder<'a> = &'a mut dyn FnMut(u64, NetnsHolder);

/// This process does not have the view or the privileges of a process on the host.
#[derive(Debug, thiserror::Error)]
pub enum NotOnNode {
    /// The PID namespace does not show all processes of the node.
    #[error(
        "cannot determine which pods are running: this process is in the PID namespace {is}, but only the initial one \
         ({INIT_PID_NS}) shows all processes; run it on the node, not in a container"
    )]
    NotOnTheNode {
        /// The PID namespace of this process.
        is: String,
    },
    /// A file of `/proc` could not be read.
    #[error(
        "cannot determine which pods are running: {}: {source}; all processes must be visible: run it on the node itself, \
         as root with CAP_SYS_PTRACE, not in a container or another user namespace",
        path.display()
    )]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },
    /// Reading all processes took too long.
    #[error(
        "cannot determine which pods are running: reading the threads and open files of all processes took longer than \
         {seconds} s, and {} is not the last; try again, or find the process that has very many of them",
        reading.display()
    )]
    TooLong {
        /// The file or directory that was read last.
        reading: PathBuf,
        /// The time limit.
        seconds: u64,
    },
    /// What held a namespace ended before the namespace could be opened, each time.
    #[error(
        "cannot determine whether the network namespace {id} still exists: its processes change; try again"
    )]
    Changing {
        /// The namespace.
        id: NetNsId,
    },
    /// This process is not in the host's network namespace.
    #[error(
        "this process is in the network namespace {is}, but the host is in {node}: devices would not return to the host; \
         run it on the node, not in a container"
    )]
    Elsewhere {
        /// The network namespace of this process.
        is: String,
        /// The network namespace of the host.
        node: String,
    },
}

/// Records the network namespaces of the threads of a process.
pub(crate) fn add_process_netns(
    process: &Path,
    until: ScanDeadline,
    note: NoteHolder<'_>,
) -> Result<(), NotOnNode> {
    for thread in numeric_entries(&process.join("task"))? {
        until.check(&thread)?;
        let path = thread.join("ns/net");
        if let Some(ino) = text_of_link(&path)?.as_deref().and_then(inode) {
            note(ino, NetnsHolder::Thread(path));
        }
    }
    Ok(())
}

/// Records the network namespaces that are mounted in the mount namespace of a process. Skips a process whose mount
/// namespace and root directory were already `seen`.
pub(crate) fn add_mounts_of(
    process: &Path,
    seen: &mut BTreeSet<(String, String)>,
    note: NoteHolder<'_>,
) -> Result<(), NotOnNode> {
    let links = (text_of_link(&process.join("ns/mnt"))?, text_of_link(&process.join("root"))?);
    let (Some(namespace), Some(root)) = links else { return Ok(()) };
    let view = (namespace, root);
    if seen.contains(&view) {
        return Ok(());
    }
    let path = process.join("mountinfo");
    match fs::read(&path) {
        Ok(text) => {
            seen.insert(view);
            add_mountinfo(&text, &process.join("root"), note);
            Ok(())
        }
        // A zombie has no mounts.
        Err(error) if has_ended(&error) || error.raw_os_error() == Some(nix::libc::EINVAL) => Ok(()),
        Err(source) => Err(NotOnNode::Unreadable { path, source }),
    }
}

/// Reads a symbolic link; `None` if the process has exited.
pub(crate) fn text_of_link(path: &Path) -> Result<Option<String>, NotOnNode> {
    match fs::read_link(path) {
        Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
        Err(error) if has_ended(&error) => Ok(None),
        Err(source) => Err(NotOnNode::Unreadable { path: path.to_owned(), source }),
    }
}

/// Returns the entries with a numeric name: processes, threads or file descriptors. Empty if the process has exited.
pub(crate) fn numeric_entries(dir: &Path) -> Result<Vec<PathBuf>, NotOnNode> {
    let failed = |source| NotOnNode::Unreadable { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Err(error) if has_ended(&error) => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = match entry {
            Err(error) if has_ended(&error) => break,
            entry => entry.map_err(failed)?.file_name(),
        };
        if name.to_string_lossy().bytes().all(|b| b.is_ascii_digit()) {
            found.push(dir.join(name));
        }
    }
    Ok(found)
}

/// Returns whether the error means that a process or thread has exited, or is a zombie.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(nix::libc::ENOENT | nix::libc::ESRCH))
}

/// Records the network namespaces in a mountinfo file, whose paths are relative to `root`. A line has the form
/// `29 25 0:4 net:[4026532210] /run/netns/a rw - nsfs nsfs rw`.
pub(crate) fn add_mountinfo(mountinfo: &[u8], root: &Path, note: NoteHolder<'_>) {
    // Paths may contain any bytes. A lossy path cannot be opened, so its namespace counts as held.
    let text = String::from_utf8_lossy(mountinfo);
    for line in text.lines() {
        let mut words = line.split(' ').skip(3);
        if let (Some(ino), Some(path)) = (words.next().and_then(inode), words.next()) {
            note(ino, NetnsHolder::Mount(root.join(path.trim_start_matches('/'))));
        }
    }
}

/// Returns the number in `net:[4026532210]`.
fn inode(name: &str) -> Option<u64> {
    name.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// `PROC_DYNAMIC_FIRST` of `fs/proc/generic.c` in the kernel: no namespace has a lower inode number, and few other files have
/// a higher one.
const MIN_NETNS_INODE: u64 = 0xf000_0000;

/// Records the namespaces that processes have open. Threads with a separate file descriptor table are not examined. Sockets
/// also keep their namespace alive, but the kernel does not report which one.
pub(crate) fn open_in_processes(proc: &Path, note: NoteHolder<'_>) -> Result<(), NotOnNode> {
    let until = ScanDeadline::new();
    for process in numeric_entries(proc)? {
        let mounts = OnceCell::new();
        for descriptor in numeric_entries(&process.join("fd"))? {
            until.check(&descriptor)?;
            let Some(text) = text_of_link(&descriptor)? else { continue };
            // The link text of a namespace that was opened as `/run/netns/a` is that path.
            let ino = match inode(&text) {
                None if text.starts_with('/') => number(&process, &descriptor, &mounts)?,
                found => found,
            };
            if let Some(ino) = ino.filter(|ino| *ino >= MIN_NETNS_INODE) {
                note(ino, NetnsHolder::File(descriptor));
            }
        }
    }
    Ok(())
}

/// The mounts of a process: mount ID → inode number of a namespace, if it is the mount of one.
type NetnsMounts = BTreeMap<u64, Option<u64>>;

/// Returns the inode number of an open file; `None` if it is on no nsfs, or has been closed.
fn number(
    process: &Path,
    descriptor: &Path,
    mounts: &OnceCell<NetnsMounts>,
) -> Result<Option<u64>, NotOnNode> {
    let path = process.join("fdinfo").join(descriptor.file_name().unwrap_or_default());
    let found = match fs::read(&path) {
        Ok(bytes) => match field(&bytes, "ino:") {
            Some(ino) => Ok(Some(ino)),
            // Before Linux 5.14, fdinfo has no inode number. stat(2) can block on a network file system, so it is only called
            // for a mount that the process does not see.
            None => match field(&bytes, "mnt_id:")
                .and_then(|id| mounts.get_or_init(|| mounts_of(process)).get(&id))
            {
                Some(ino) => Ok(*ino),
                None => fs::metadata(descriptor).map(|meta| Some(meta.ino())),
            },
        },
        Err(error) => Err(error),
    };
    match found {
        Err(error) if has_ended(&error) || error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map_err(|source| NotOnNode::Unreadable { path, source }),
    }
}

/// Returns the number in a line of fdinfo. Others may contain bytes that a pod chose, such as the name of a TUN interface.
fn field(fdinfo: &[u8], name: &str) -> Option<u64> {
    String::from_utf8_lossy(fdinfo).lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn mounts_of(process: &Path) -> NetnsMounts {
    let text = fs::read(process.join("mountinfo")).unwrap_or_default();
    let mount = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.parse().ok()?, words.nth(2).and_then(inode)))
    };
    String::from_utf8_lossy(&text).lines().filter_map(mount).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A process that ends between two readings has no mounts; the others of its mount namespace do.
    #[test]
    fn the_mounts_of_a_namespace_are_read_from_the_first_process_that_still_runs() {
        let proc = tempfile::tempdir().unwrap();
        let mounted = "29 25 0:4 net:[4026532210] /run/netns/a rw - nsfs nsfs rw\n";
        let mut seen = BTreeSet::new();
        let found = ["ended", "running", "other"].map(|name| {
            let process = proc.path().join(name);
            fs::create_dir_all(process.join("ns")).unwrap();
            symlink("mnt:[4026531841]", process.join("ns/mnt")).unwrap();
            symlink("/", process.join("root")).unwrap();
            if name != "ended" {
                fs::write(process.join("mountinfo"), mounted).unwrap();
            }
            let mut found = Vec::new();
            add_mounts_of(&process, &mut seen, &mut |inode, _| found.push(inode)).unwrap();
            found
        });
        assert_eq!(found, [vec![], vec![4_026_532_210], vec![]]);
    }

    /// A pod can have as many threads and open files as it wants to.
    #[test]
    fn reading_all_processes_ends_in_time() {
        let process = tempfile::tempdir().unwrap();
        fs::create_dir_all(process.path().join("task/77")).unwrap();
        let read = |until| add_process_netns(process.path(), until, &mut |_, _| ());
        read(ScanDeadline::new()).unwrap();
        let error = read(ScanDeadline(Instant::now())).unwrap_err();
        assert!(
            error.to_string().contains("longer than 20 s") && error.to_string().contains("task/77"),
            "{error}"
        );
    }
}
