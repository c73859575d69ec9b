//! Whether the state directory is that of a container, not of the node.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The root directory of the process 1, which is the node's in the initial PID namespace.
const ROOT_OF_INIT: &str = "/proc/1/root";

/// `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// A directory or file, wherever it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

/// Returns why a state directory is that of a container; `None` if it is not, or if nothing tells.
///
/// A container whose runtime or daemon calls the plugin without a chroot to the node has a `/run` of its own. What is written there
/// is lost with the container, and the node's other calls do not see it.
pub(crate) fn evidence(state_dir: &Path, netns: Option<&Path>) -> Option<String> {
    let sees_init =
        || fs::read_link("/proc/self/ns/pid").is_ok_and(|it| it == Path::new(INITIAL_PID_NAMESPACE));
    let stat = |path: &Path| {
        let meta = fs::metadata(path)?;
        Ok(FileId { device: meta.dev(), inode: meta.ino() })
    };
    find(state_dir, netns, &sees_init, &stat)
}

fn find(
    state_dir: &Path,
    netns: Option<&Path>,
    sees_init: &dyn Fn() -> bool,
    stat: &dyn Fn(&Path) -> io::Result<FileId>,
) -> Option<String> {
    let (existing, id) = state_dir.ancestors().find_map(|path| Some((path, stat(path).ok()?)))?;
    let is_on_root = |id: FileId| stat(Path::new("/")).is_ok_and(|root| root.device == id.device);
    // Another file system was mounted there: the node's, as systemd mounts /run, or a volume of it.
    if !is_on_root(id) {
        return None;
    }
    if sees_init() && stat(Path::new(ROOT_OF_INIT)).is_ok() {
        let of_node: PathBuf = Path::new(ROOT_OF_INIT).join(existing.strip_prefix("/").unwrap_or(existing));
        return (stat(&of_node).ok() != Some(id))
            .then(|| format!("{} is another directory than {}", existing.display(), of_node.display()));
    }
    let run = netns?.parent().filter(|dir| dir.ends_with("netns"))?;
    let is_mounted = existing.starts_with("/run") && !is_on_root(stat(run).ok()?);
    is_mounted.then(|| {
        format!(
            "{} is mounted from the node, and {} is on the root file system",
            run.display(),
            existing.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files by their paths, with device and inode.
    fn found(netns: &str, sees_init: bool, files: &[(&str, u64, u64)]) -> Option<String> {
        let stat = |path: &Path| {
            let file = files.iter().find(|(name, ..)| Path::new(name) == path);
            file.map(|(_, device, inode)| FileId { device: *device, inode: *inode })
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        find(Path::new("/run/silkrail"), Some(Path::new(netns)), &|| sees_init, &stat)
    }

    #[test]
    fn a_run_of_a_container_is_told_by_the_init_process_or_by_the_mount_of_network_namespaces() {
        let netns = "/var/run/netns/a";
        let container = [("/", 9, 1), ("/run", 9, 2), ("/var/run/netns", 3, 7)];
        let init = |run: (u64, u64)| {
            [&container[..], &[("/proc/1/root", 1, 1), ("/proc/1/root/run", run.0, run.1)]].concat()
        };
        let evidence = found(netns, true, &init((3, 1))).unwrap();
        assert!(evidence.contains("/proc/1/root/run"), "{evidence}");
        assert_eq!(found(netns, true, &init((9, 2))), None, "the node has no file system for /run");
        let evidence = found(netns, false, &container).unwrap();
        assert!(evidence.starts_with("/var/run/netns is mounted"), "{evidence}");
        assert!(found(netns, true, &container).is_some(), "/proc/1/root cannot be read");
        assert_eq!(found("/proc/77/ns/net", false, &container), None);
    }

    #[test]
    fn a_run_that_is_mounted_is_the_nodes() {
        let node = [
            ("/", 1, 1),
            ("/run", 3, 1),
            ("/run/netns", 3, 7),
            ("/proc/1/root", 1, 1),
            ("/proc/1/root/run", 3, 1),
        ];
        let volume = [("/", 9, 1), ("/run", 9, 2), ("/run/silkrail", 3, 5), ("/run/netns", 3, 7)];
        let chroot = [
            ("/", 1, 1),
            ("/run", 3, 1),
            ("/run/netns", 3, 7),
            ("/proc/1/root", 9, 1),
            ("/proc/1/root/run", 9, 2),
        ];
        for files in [&node[..], &volume, &chroot] {
            for sees_init in [true, false] {
                assert_eq!(found("/run/netns/a", sees_init, files), None, "{files:?}");
            }
        }
    }
}
