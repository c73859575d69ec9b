//! The network namespaces of a node other than the host's, for display: where each is mounted, and its processes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    NetNsId, NotOnNode,
    holders::{NetnsHolder, open_in_processes},
    liveness::threads_and_mounts,
};

/// A network namespace and what holds it.
#[derive(Debug, Serialize)]
pub struct OtherNetNs {
    /// The ID of the namespace.
    #[serde(flatten)]
    pub id: NetNsId,
    /// The paths where it is mounted.
    pub mounts: Vec<PathBuf>,
    /// The processes that are in the namespace, or have it open.
    pub processes: Vec<Process>,
}

/// A process that holds a network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Process {
    /// The process ID.
    pub pid: u32,
    /// The command name, as in `ps -o comm`.
    pub command: String,
    /// The systemd unit, if any: `containerd.service`.
    pub unit: Option<String>,
}

/// The mounts and processes that hold one namespace.
#[derive(Default)]
struct HoldersOfOne {
    mounts: BTreeSet<PathBuf>,
    pids: BTreeSet<u32>,
}

impl OtherNetNs {
    /// Lists all network namespaces except the host's, sorted by inode number. A namespace that only a socket keeps alive,
    /// or that is being destroyed, is not included.
    ///
    /// # Errors
    /// [`NotOnNode`].
    pub fn list(root: &Path) -> Result<Vec<Self>, NotOnNode> {
        let proc = root.join("proc");
        let mut held: BTreeMap<u64, HoldersOfOne> = BTreeMap::new();
        let mut note = |ino, holder| {
            let holders = held.entry(ino).or_default();
            match holder {
                NetnsHolder::Mount(path) => drop(holders.mounts.insert(shown(&path, root))),
                NetnsHolder::Thread(path) | NetnsHolder::File(path) => holders.pids.extend(pid(&path, &proc)),
            }
        };
        threads_and_mounts(root, &mut note)?;
        open_in_processes(&proc, &mut note)?;
        // There is only one nsfs instance, so all namespaces have the same device number.
        let own = fs::metadata(proc.join("1/ns/net")).ok();
        let (dev, own) = own.map_or((0, None), |meta| (meta.dev(), Some(meta.ino())));
        let others = held.into_iter().filter(|(ino, _)| Some(*ino) != own);
        Ok(others.map(|(ino, holders)| Self::of(NetNsId::new(dev, ino), holders, &proc)).collect())
    }

    fn of(id: NetNsId, holders: HoldersOfOne, proc: &Path) -> Self {
        let processes = holders.pids.into_iter().map(|pid| Process::of(pid, proc)).collect();
        Self { id, mounts: holders.mounts.into_iter().collect(), processes }
    }
}

impl Process {
    fn of(pid: u32, proc: &Path) -> Self {
        let text = |name| fs::read_to_string(proc.join(pid.to_string()).join(name)).unwrap_or_default();
        let cgroup = text("cgroup");
        let unit = cgroup.lines().find_map(|line| {
            let name = line.rsplit('/').next()?;
            (name.ends_with(".service") || name.ends_with(".scope")).then(|| name.to_owned())
        });
        Self { pid, command: text("comm").trim_end().to_owned(), unit }
    }
}

/// Returns a mount point as a path on the node. mountinfo escapes spaces as `\040`.
fn shown(path: &Path, root: &Path) -> PathBuf {
    let below = path.strip_prefix(root).unwrap_or(path);
    let below = below.strip_prefix("proc/1/root").unwrap_or(below);
    Path::new("/").join(below.to_string_lossy().replace("\\040", " "))
}

/// Returns the process ID from a path below `/proc`.
fn pid(path: &Path, proc: &Path) -> Option<u32> {
    path.strip_prefix(proc).ok()?.iter().next()?.to_str()?.parse().ok()
}

impl fmt::Display for OtherNetNs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        if let Some(mount) = self.mounts.first() {
            write!(f, "  {}", mount.display())?;
        }
        if let Some(Process { pid, command, unit }) = self.processes.first() {
            write!(f, "  pid {pid} ({command})")?;
            if let Some(unit) = unit {
                write!(f, " of {unit}")?;
            }
        }
        match self.processes.len() {
            0 | 1 => Ok(()),
            many => write!(f, " and {} more", many - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::holders::INIT_PID_NS;

    /// A root directory with processes: process ID, namespace, and command. The first one is in the host's namespace.
    fn node(processes: &[(u32, u64, &str)], mountinfo: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc");
        for (pid, namespace, command) in processes {
            let process = proc.join(pid.to_string());
            fs::create_dir_all(process.join("task/1/ns")).unwrap();
            symlink(format!("net:[{namespace}]"), process.join("task/1/ns/net")).unwrap();
            fs::write(process.join("comm"), format!("{command}\n")).unwrap();
            fs::write(process.join("cgroup"), format!("0::/system.slice/{command}.service\n")).unwrap();
            fs::write(process.join("mountinfo"), mountinfo).unwrap();
        }
        fs::create_dir_all(proc.join("self/ns")).unwrap();
        symlink(INIT_PID_NS, proc.join("self/ns/pid")).unwrap();
        fs::write(proc.join("self/mountinfo"), mountinfo).unwrap();
        root
    }

    #[test]
    fn processes_mounts_and_open_files_of_a_namespace_are_combined() {
        let mounts = "29 25 0:4 net:[4026532999] /run/netns/a\\040b rw - nsfs nsfs rw\n";
        let root =
            node(&[(1, 4026532999, "systemd"), (70, 4026532999, "pause"), (9, 4026532998, "sh")], mounts);
        fs::create_dir_all(root.path().join("proc/9/fd")).unwrap();
        symlink("net:[4026532999]", root.path().join("proc/9/fd/3")).unwrap();

        let all = OtherNetNs::list(root.path()).unwrap();
        let [first, second] = &all[..] else { panic!("{all:?}") };
        assert_eq!(first.to_string(), "net:[4026532998]  pid 9 (sh) of sh.service");
        let expected = "net:[4026532999]  /run/netns/a b  pid 1 (systemd) of systemd.service and 2 more";
        assert_eq!(second.to_string(), expected);
        assert_eq!(
            second.mounts,
            [Path::new("/run/netns/a b")],
            "each once, as the node and this process see it"
        );
        assert_eq!(second.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [1, 9, 70]);
    }

    #[test]
    fn the_namespace_of_the_host_is_not_listed() {
        let own = fs::metadata("/proc/self/ns/net").unwrap().ino();
        let root = node(&[(1, own, "systemd")], "2 0 8:1 / / rw - ext4 /dev/vda rw\nbroken\n");
        fs::create_dir_all(root.path().join("proc/1/ns")).unwrap();
        symlink("/proc/self/ns/net", root.path().join("proc/1/ns/net")).unwrap();
        assert!(OtherNetNs::list(root.path()).unwrap().is_empty());
        let proc = root.path().join("proc");
        let unit = |cgroup: &str| {
            fs::write(proc.join("1/cgroup"), cgroup).unwrap();
            Process::of(1, &proc).unit
        };
        for unit_name in ["session-3.scope", "containerd.service"] {
            assert_eq!(unit(&format!("4:memory:/\n0::/a.slice/{unit_name}\n")).as_deref(), Some(unit_name));
        }
        assert_eq!(unit("0::/user.slice\n"), None);
        fs::remove_file(root.path().join("proc/self/ns/pid")).unwrap();
        assert!(
            OtherNetNs::list(root.path()).is_err(),
            "the list is not available if not all processes are visible"
        );
    }
}
