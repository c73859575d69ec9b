//! The node's processes.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use netns::NotOnNode;
use nix::libc;

use crate::{Error, PodMembership, membership};

/// No `/proc/<pid>/cgroup` is longer: a path has 4096 bytes at most, and there are not more than 16 hierarchies.
const MAX_CGROUP_FILE_BYTES: u64 = 128 * 1024;

/// The processes of a node.
#[derive(Debug, Clone)]
pub struct Processes {
    root: PathBuf,
}

/// Whose a process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessOwner {
    /// A pod's.
    Pod(PodMembership),
    /// No pod's that its cgroup shows: the node's own.
    Node,
}

impl Processes {
    /// Those that `<root>/proc` shows.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Whose a process or thread is; `None` if it has ended.
    ///
    /// The kernel uses a number again after its process has ended, so ask soon after the number was learnt.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn owner(&self, pid: u32) -> Result<Option<ProcessOwner>, Error> {
        let text = self.cgroup(pid)?;
        Ok(text.map(|text| membership(&text).map_or(ProcessOwner::Node, ProcessOwner::Pod)))
    }

    /// The pod of a process or thread; `None` if it has ended or is the node's. [`Processes::owner`] tells these apart.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn membership(&self, pid: u32) -> Result<Option<PodMembership>, Error> {
        Ok(self.cgroup(pid)?.as_deref().and_then(membership))
    }

    /// The cgroup text of a process or thread; `None` if it has ended.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn cgroup(&self, pid: u32) -> Result<Option<String>, Error> {
        // A thread's directory is not listed, but there.
        let path = self.root.join(format!("proc/{pid}/cgroup"));
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|file| file.take(MAX_CGROUP_FILE_BYTES).read_to_end(&mut bytes)) {
            Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if has_ended(&error) => Ok(None),
            Err(source) => Err(Error::Unreadable { path, source }),
        }
    }

    /// Whether this process is in the node's own PID namespace.
    ///
    /// In another, which is a container's without `hostPID: true`, the kernel tells it the numbers of none but that
    /// container's processes, and those mean other processes in the node's `/proc`.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn sees_every_process(&self) -> Result<bool, Error> {
        match netns::sees_every_process(&self.root) {
            Ok(sees) => Ok(sees),
            Err(NotOnNode::NotOnTheNode { .. } | NotOnNode::Elsewhere { .. }) => Ok(false),
            Err(NotOnNode::Unreadable { path, source }) => Err(Error::Unreadable { path, source }),
        }
    }
}

/// Between opening and reading, a process that has ended becomes `ESRCH`.
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
