//! The processes of the node, from `/proc`.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use netns::NotOnNode;
use nix::libc;

use crate::{Error, PodMembership, membership};

/// The maximum length of `/proc/<pid>/cgroup`: 16 hierarchies with paths of up to 4096 bytes, and a margin.
const MAX_CGROUP_FILE_BYTES: u64 = 128 * 1024;

/// The processes of a node.
#[derive(Debug, Clone)]
pub struct Processes {
    root: PathBuf,
}

/// What a process belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessOwner {
    /// The process is in the cgroup of a pod.
    Pod(PodMembership),
    /// The process is in another cgroup: it belongs to the node.
    Node,
}

impl Processes {
    /// The processes in `<root>/proc`.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the owner of a process or thread; `None` if it has ended.
    ///
    /// The kernel reuses PIDs, so `pid` should have been read shortly before.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn owner(&self, pid: u32) -> Result<Option<ProcessOwner>, Error> {
        let text = self.cgroup(pid)?;
        Ok(text.map(|text| membership(&text).map_or(ProcessOwner::Node, ProcessOwner::Pod)))
    }

    /// Returns the pod of a process or thread; `None` if it has ended or belongs to the node. [`Processes::owner`]
    /// distinguishes these cases.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn membership(&self, pid: u32) -> Result<Option<PodMembership>, Error> {
        Ok(self.cgroup(pid)?.as_deref().and_then(membership))
    }

    /// Reads `/proc/<pid>/cgroup` of a process or thread; `None` if it has ended.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn cgroup(&self, pid: u32) -> Result<Option<String>, Error> {
        // readdir(3) on /proc does not list threads, but open(2) finds their directories, see proc(5).
        let path = self.root.join(format!("proc/{pid}/cgroup"));
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|file| file.take(MAX_CGROUP_FILE_BYTES).read_to_end(&mut bytes)) {
            Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if has_ended(&error) => Ok(None),
            Err(source) => Err(Error::Unreadable { path, source }),
        }
    }

    /// Returns the command name of a process; `None` if it has ended.
    pub fn command(&self, pid: u32) -> Option<String> {
        let comm = std::fs::read_to_string(self.root.join(format!("proc/{pid}/comm"))).ok()?;
        Some(comm.trim_end().to_owned())
    }

    /// Whether this process is in the node's own PID namespace.
    ///
    /// In a container without `hostPID: true` it is not. Then the kernel reports only PIDs of that container's processes, and
    /// these are PIDs of other processes in the node's `/proc`.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn sees_every_process(&self) -> Result<bool, Error> {
        match netns::sees_every_process(&self.root) {
            Ok(sees) => Ok(sees),
            Err(NotOnNode::Unreadable { path, source }) => Err(Error::Unreadable { path, source }),
            Err(_) => Ok(false),
        }
    }
}

/// Whether the process has ended: before open(2) (`ENOENT`), or between open(2) and read(2) (`ESRCH`).
fn has_ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_ends_between_opening_and_reading_has_ended() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut file = File::open(format!("/proc/{}/cgroup", cat.id())).unwrap();
        drop(cat.stdin.take());
        cat.wait().unwrap();
        let error = file.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(has_ended(&error), "{error}");
        assert!(!has_ended(&io::Error::from_raw_os_error(libc::EACCES)));
    }
}
