//! Parses `/proc/<pid>/cgroup`.

use crate::{PodUid, path::locate};

/// The pod and the container that a process belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodMembership {
    /// The UID of the pod.
    pub pod: PodUid,
    /// The container ID, such as `5f3d…`; `None` if the name of the cgroup does not contain one, for example if the process
    /// belongs to the container runtime.
    pub container: Option<String>,
}

/// Returns the pod of the process with this `/proc/<pid>/cgroup`; `None` if the process is not in the cgroup of a pod.
///
/// Also `None` if the reading process has its own cgroup namespace and is in the same pod: then the kernel does not show the
/// pod's level.
pub fn membership(cgroup_text: &str) -> Option<PodMembership> {
    let level = paths(cgroup_text).find_map(|(_, path)| locate(path))?;
    Some(PodMembership { pod: level.uid, container: level.below.and_then(container) })
}

/// Returns the path of a process in the hierarchy that systemd uses, such as `/system.slice/sshd.service`.
pub fn cgroup_path(cgroup_text: &str) -> Option<&str> {
    let of = |wanted: &str| paths(cgroup_text).find(|(controllers, _)| *controllers == wanted);
    let (_, path) =
        of("").filter(|(_, path)| *path != "/").or_else(|| of("name=systemd")).or_else(|| of(""))?;
    Some(path)
}

/// Returns controllers and path of each hierarchy, see cgroups(7). A line is `0::/path` (v2) or `5:cpu,cpuacct:/path` (v1).
/// A path can contain colons, but no newline.
pub(crate) fn paths(cgroup_text: &str) -> impl Iterator<Item = (&str, &str)> {
    cgroup_text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?))
    })
}

/// Returns the ID in `cri-containerd-<id>.scope`, `crio-<id>.scope`, `docker-<id>.scope`, `cri-containerd:<id>` or `<id>`.
fn container(name: &str) -> Option<String> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (runtime, id) = name.rsplit_once(['-', ':']).unwrap_or(("", name));
    // conmon, CRI-O's container monitor, runs outside the container.
    let is_id = is_container_id(id) && !runtime.ends_with("conmon");
    is_id.then(|| id.to_owned())
}

fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
