//! The other network namespaces of the node, and who holds them: what keeps the kernel from changing the mode.
//!
//! A namespace lives as long as a process is in it, a file is mounted on it, or a descriptor of it is open.
//! The first two are found here; the third is rare, and so is a namespace that is just dying.

use std::{
    collections::BTreeMap,
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use netns::NetNsId;
use serde::Serialize;

/// A network namespace and who holds it.
#[derive(Debug, Serialize)]
pub(crate) struct Namespace {
    #[serde(flatten)]
    pub(crate) id: NetNsId,
    /// Where it is mounted.
    pub(crate) mounts: Vec<PathBuf>,
    /// The processes in it.
    pub(crate) processes: Vec<Process>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) command: String,
    /// Its systemd unit, if it has one.
    pub(crate) unit: Option<String>,
}

/// Every network namespace but the first that is visible in `proc`, in the order of their numbers.
pub(crate) fn others(proc: &Path) -> Vec<Namespace> {
    let first = id(&proc.join("1/ns/net")).or_else(|| id(&proc.join("self/ns/net")));
    let mut found: BTreeMap<u64, Namespace> = BTreeMap::new();
    let mut holder = |id: NetNsId, mount: Option<PathBuf>, process: Option<Process>| {
        let empty = || Namespace { id, mounts: Vec::new(), processes: Vec::new() };
        let namespace = found.entry(id.ino).or_insert_with(empty);
        namespace.mounts.extend(mount);
        namespace.processes.extend(process);
    };
    for (ino, mount) in mounts(&fs::read_to_string(proc.join("self/mountinfo")).unwrap_or_default()) {
        let dev = first.map_or(0, |first| first.dev); // there is one nsfs
        holder(NetNsId::new(dev, ino), Some(mount), None);
    }
    for pid in pids(proc) {
        let dir = proc.join(pid.to_string());
        if let Some(id) = id(&dir.join("ns/net")).filter(|id| Some(*id) != first) {
            holder(id, None, Some(process(&dir, pid)));
        }
    }
    let is_other = |namespace: &Namespace| Some(namespace.id) != first;
    found.into_values().filter(is_other).collect()
}

fn id(file: &Path) -> Option<NetNsId> {
    let meta = fs::metadata(file).ok()?;
    Some(NetNsId::new(meta.dev(), meta.ino()))
}

fn pids(proc: &Path) -> Vec<u32> {
    let entries = fs::read_dir(proc).into_iter().flatten();
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

fn process(dir: &Path, pid: u32) -> Process {
    let text = |name| fs::read_to_string(dir.join(name)).unwrap_or_default();
    let cgroup = text("cgroup");
    let unit = cgroup.lines().find_map(|line| {
        let name = line.rsplit('/').next()?;
        (name.ends_with(".service") || name.ends_with(".scope")).then(|| name.to_owned())
    });
    Process { pid, command: text("comm").trim_end().to_owned(), unit }
}

/// Inode and mount point of each network namespace in a mountinfo text. A line is
/// `29 25 0:4 net:[4026532210] /run/netns/a rw - nsfs nsfs rw`; spaces in paths are written `\040`.
fn mounts(mountinfo: &str) -> Vec<(u64, PathBuf)> {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(3);
        let ino = fields.next()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()?;
        Some((ino, PathBuf::from(fields.next()?.replace("\\040", " "))))
    };
    mountinfo.lines().filter_map(mount).collect()
}

impl fmt::Display for Namespace {
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

    #[test]
    fn processes_and_mounts_of_one_namespace_come_together() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        for name in ["first", "pod"] {
            fs::write(proc.join(name), "").unwrap();
        }
        for (pid, namespace, command) in [(1, "first", "systemd"), (70, "pod", "pause"), (9, "pod", "sh")] {
            let of = proc.join(pid.to_string());
            fs::create_dir_all(of.join("ns")).unwrap();
            symlink(proc.join(namespace), of.join("ns/net")).unwrap();
            fs::write(of.join("comm"), format!("{command}\n")).unwrap();
            fs::write(of.join("cgroup"), format!("0::/system.slice/{command}.service\n")).unwrap();
        }
        let pod = id(&proc.join("pod")).unwrap();
        let mountinfo = format!("29 25 0:4 net:[{}] /run/netns/a\\040b rw - nsfs nsfs rw\n", pod.ino);
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::write(proc.join("self/mountinfo"), mountinfo).unwrap();

        let others = others(proc);
        assert_eq!(others.len(), 1);
        let expected = format!("net:[{}]  /run/netns/a b  pid 9 (sh) of sh.service and 1 more", pod.ino);
        assert_eq!(others[0].to_string(), expected);
    }

    #[test]
    fn only_network_namespaces_are_taken_from_the_mounts() {
        let text =
            "1 0 0:4 mnt:[4026531841] /run/x rw - nsfs nsfs rw\n2 0 8:1 / / rw - ext4 /dev/vda rw\nbroken\n";
        assert!(mounts(text).is_empty());
    }
}
