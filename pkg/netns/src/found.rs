//! The network namespaces of a node, found by the files that runtimes mount and by processes, and a path to open each.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::sys::statfs::statfs;

use crate::{NetNsId, namespace::NSFS};

/// The directories in which runtimes mount namespaces: containerd, CRI-O, podman and `ip netns` use the first one, Docker the second.
const DIRECTORIES: [&str; 2] = ["run/netns", "run/docker/netns"];

/// A network namespace, and how to open it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundNetNs {
    /// The ID, without a cookie.
    pub id: NetNsId,
    /// A file of the namespace: where a runtime mounted it, else `/proc/<pid>/ns/net`.
    pub path: PathBuf,
    /// The process with the lowest PID in it, which is usually the oldest; `None` if no process in it is visible.
    pub pid: Option<u32>,
}

/// The network namespaces that were found.
#[derive(Debug, Clone, Default)]
pub struct FoundNamespaces {
    /// The namespaces by ID.
    pub by_id: HashMap<NetNsId, FoundNetNs>,
    /// The number of processes whose namespace may not be read, which needs `CAP_SYS_PTRACE`.
    pub hidden_processes: usize,
}

impl FoundNamespaces {
    /// Finds the namespaces below a root directory. Only the main thread of a process counts. What cannot be read is omitted:
    /// for a decision to release something, use [`crate::LiveNetns`].
    pub fn find(root: &Path) -> Self {
        let mut found = Self::default();
        for directory in DIRECTORIES {
            let entries = fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
            entries.for_each(|entry| found.add_mount(entry.path()));
        }
        let proc = root.join("proc");
        let entries = fs::read_dir(&proc).into_iter().flatten().flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        pids.into_iter().for_each(|pid| found.add_process(&proc, pid));
        found
    }

    fn add_mount(&mut self, path: PathBuf) {
        // A file that is not a mount of a namespace is a remainder.
        if !statfs(&path).is_ok_and(|found| found.filesystem_type() == NSFS) {
            return;
        }
        let Ok(meta) = fs::metadata(&path) else { return };
        let id = NetNsId::new(meta.dev(), meta.ino());
        self.by_id.entry(id).or_insert(FoundNetNs { id, path, pid: None });
    }

    fn add_process(&mut self, proc: &Path, pid: u32) {
        let path = proc.join(pid.to_string()).join("ns/net");
        match fs::metadata(&path) {
            Ok(meta) => {
                let id = NetNsId::new(meta.dev(), meta.ino());
                let found = self.by_id.entry(id).or_insert(FoundNetNs { id, path, pid: None });
                found.pid.get_or_insert(pid);
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => self.hidden_processes += 1,
            // It has ended, or is a kernel thread or a zombie.
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::NetNs;

    #[test]
    fn the_namespace_of_this_process_is_found_by_its_lowest_pid() {
        let found = FoundNamespaces::find(Path::new("/"));
        let own = NetNs::current().unwrap().id();
        let this = &found.by_id[&own];
        assert!(this.pid.is_some_and(|pid| pid <= std::process::id()), "{this:?}");
        assert_eq!(NetNs::open(&this.path).unwrap().id(), own);
    }

    #[test]
    fn a_namespace_is_opened_where_it_is_mounted_and_belongs_to_its_oldest_process() {
        let own = NetNs::current().unwrap().id();
        let link = |path: PathBuf| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink("/proc/self/ns/net", path).unwrap();
        };
        for directory in DIRECTORIES {
            let root = tempfile::tempdir().unwrap();
            let (proc, mount) = (root.path().join("proc"), root.path().join(directory).join("pod"));
            fs::create_dir_all(proc.join("8/ns")).unwrap(); // it has ended
            for pid in ["10", "9", "self"] {
                link(proc.join(pid).join("ns/net"));
            }
            let found = FoundNamespaces::find(root.path());
            let by_process = FoundNetNs { id: own, path: proc.join("9/ns/net"), pid: Some(9) };
            assert_eq!(found.by_id.into_values().collect::<Vec<_>>(), [by_process]);
            link(mount.clone());
            let found = FoundNamespaces::find(root.path());
            let mounted = FoundNetNs { id: own, path: mount.clone(), pid: Some(9) };
            assert_eq!(
                (found.by_id.into_values().collect::<Vec<_>>(), found.hidden_processes),
                (vec![mounted], 0)
            );
            fs::remove_dir_all(&proc).unwrap();
            let found = FoundNamespaces::find(root.path());
            let without_process = FoundNetNs { id: own, path: mount, pid: None };
            assert_eq!(found.by_id.into_values().collect::<Vec<_>>(), [without_process]);
        }
    }

    #[test]
    fn files_that_are_not_mounts_of_a_namespace_are_no_namespaces() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("run/netns")).unwrap();
        fs::write(root.path().join("run/netns/remainder"), "").unwrap();
        assert!(FoundNamespaces::find(root.path()).by_id.is_empty());
    }
}
