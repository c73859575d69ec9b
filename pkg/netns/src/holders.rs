//! What holds network namespaces: threads that are in them, mounts, and open files.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// `PROC_PID_INIT_INO` of `linux/proc_ns.h`: the PID namespace in which every process is seen.
pub(crate) const INIT_PID_NS: &str = "pid:[4026531836]";

/// What keeps a namespace alive, by a path that leads to it.
#[derive(Debug)]
pub(crate) enum NetnsHolder {
    /// A thread of a process: `/proc/<pid>/task/<tid>/ns/net`.
    Thread(PathBuf),
    /// A mount.
    Mount(PathBuf),
    /// An open file of a process: `/proc/<pid>/fd/<number>`.
    File(PathBuf),
}

/// Is called with the inode number of each namespace that something holds.
pub(crate) type NoteHolder<'a> = &'a mut dyn FnMut(u64, NetnsHolder);

/// What this process sees and touches is not the node's.
#[derive(Debug, thiserror::Error)]
pub enum NotOnNode {
    /// Not every process of the node is seen.
    #[error(
        "cannot judge which pods live: this process is in the PID namespace {is}, and only in the node's own \
         ({INIT_PID_NS}) every process is seen; run it on the node, not in a container"
    )]
    NotOnTheNode {
        /// Where it is.
        is: String,
    },
    /// A file of `/proc` could not be read.
    #[error(
        "cannot judge which pods live: {}: {source}; every process must be seen: run it on the node itself, as a root \
         with CAP_SYS_PTRACE, not in a container or another user namespace",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// This process has a network namespace of its own.
    #[error(
        "this process is in the network namespace {is}, and the node in {node}: devices would not come home; \
         run it on the node, not in a container"
    )]
    Elsewhere {
        /// Where it is.
        is: String,
        /// Where the node is.
        node: String,
    },
}

/// Notes the network namespaces that a process's threads are in.
pub(crate) fn add_process_netns(process: &Path, note: NoteHolder<'_>) -> Result<(), NotOnNode> {
    for thread in numeric_entries(&process.join("task"))? {
        let path = thread.join("ns/net");
        if let Some(ino) = text_of_link(&path)?.as_deref().and_then(inode) {
            note(ino, NetnsHolder::Thread(path));
        }
    }
    Ok(())
}

/// Notes the network namespaces that are mounted where a process sees them, unless one that sees the same was `seen`:
/// that is decided by the mount namespace and the root directory.
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

/// What a symbolic link says; `None` if it is gone with its process.
pub(crate) fn text_of_link(path: &Path) -> Result<Option<String>, NotOnNode> {
    match fs::read_link(path) {
        Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
        Err(error) if has_ended(&error) => Ok(None),
        Err(source) => Err(NotOnNode::Unreadable { path: path.to_owned(), source }),
    }
}

/// The entries that are named by a number: processes, or a process's threads; none if it has ended.
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

/// Whether a process or thread has ended while it was looked at, or has ended and is not yet waited for.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(nix::libc::ENOENT | nix::libc::ESRCH))
}

/// Notes the network namespaces in a mountinfo text, whose paths begin at `root`. A line is
/// `29 25 0:4 net:[4026532210] /run/netns/a rw - nsfs nsfs rw`.
pub(crate) fn add_mountinfo(mountinfo: &[u8], root: &Path, note: NoteHolder<'_>) {
    // A mount point's name may be any bytes; one that is odd leads nowhere, and so holds what it may hold.
    let text = String::from_utf8_lossy(mountinfo);
    for line in text.lines() {
        let mut words = line.split(' ').skip(3);
        if let (Some(ino), Some(path)) = (words.next().and_then(inode), words.next()) {
            note(ino, NetnsHolder::Mount(root.join(path.trim_start_matches('/'))));
        }
    }
}

/// The number in `net:[4026532210]`.
fn inode(name: &str) -> Option<u64> {
    name.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// `PROC_DYNAMIC_FIRST` of the kernel's `fs/proc/generic.c`: no namespace has a lower number, and few files have as high a
/// one.
const MIN_NETNS_INODE: u64 = 0xf000_0000;

/// Looks at the open files of every process. A thread that shares them with no other thread of its process is not seen,
/// and neither is a socket, which keeps its namespace alive too and tells nobody which.
pub(crate) fn open_in_processes(proc: &Path, note: NoteHolder<'_>) -> Result<(), NotOnNode> {
    for process in numeric_entries(proc)? {
        for descriptor in numeric_entries(&process.join("fd"))? {
            let Some(text) = text_of_link(&descriptor)? else { continue };
            // What was opened by a path of its own, as `/run/netns/a`, is told by that path.
            let ino = match inode(&text) {
                None if text.starts_with('/') => number(&process, &descriptor)?,
                found => found,
            };
            if let Some(ino) = ino.filter(|ino| *ino >= MIN_NETNS_INODE) {
                note(ino, NetnsHolder::File(descriptor));
            }
        }
    }
    Ok(())
}

/// The inode number of an open file; `None` if it is closed by now.
fn number(process: &Path, descriptor: &Path) -> Result<Option<u64>, NotOnNode> {
    let path = process.join("fdinfo").join(descriptor.file_name().unwrap_or_default());
    let found = match fs::read_to_string(&path) {
        Ok(text) => match text.lines().find_map(|line| line.strip_prefix("ino:")) {
            Some(ino) => Ok(ino.trim().parse().ok()),
            // Before Linux 5.14. A file of a server that does not answer would be waited for here.
            None => fs::metadata(descriptor).map(|meta| Some(meta.ino())),
        },
        Err(error) => Err(error),
    };
    match found {
        Err(error) if has_ended(&error) || error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map_err(|source| NotOnNode::Unreadable { path, source }),
    }
}
