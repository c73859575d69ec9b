//! The pod in a cgroup text.

use crate::{PodUid, path::locate};

/// Which pod, and which of its containers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodMembership {
    /// The pod.
    pub pod: PodUid,
    /// The container's ID, like `5f3d…`; `None` if the cgroup's name does not have it, as that of a runtime's own
    /// process.
    pub container: Option<String>,
}

/// The pod of a process whose `/proc/<pid>/cgroup` is `cgroup_text`; `None` if it is in no pod's cgroup.
///
/// Also `None` if the reader is in a cgroup namespace of its own and the process is in the same pod: then the kernel
/// does not show the pod's level.
pub fn membership(cgroup_text: &str) -> Option<PodMembership> {
    let level = paths(cgroup_text).find_map(|(_, path)| locate(path))?;
    Some(PodMembership { pod: level.uid, container: level.below.and_then(container) })
}

/// The hierarchies' controllers and paths. A line is `0::/path` or, of version 1, `5:cpu,cpuacct:/path`; a path may
/// have colons, but no line's end.
pub(crate) fn paths(cgroup_text: &str) -> impl Iterator<Item = (&str, &str)> {
    cgroup_text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?))
    })
}

/// The ID in `cri-containerd-<id>.scope`, `crio-<id>.scope`, `docker-<id>.scope`, `cri-containerd:<id>` or `<id>`.
fn container(name: &str) -> Option<String> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (runtime, id) = name.rsplit_once(['-', ':']).unwrap_or(("", name));
    // CRI-O's monitor of a container is not in it.
    let is_id = is_container_id(id) && !runtime.ends_with("conmon");
    is_id.then(|| id.to_owned())
}

fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
