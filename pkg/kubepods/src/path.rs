//! Finds the pod's level in a cgroup path.
//!
//! Its name depends on kubelet's cgroup driver. The cgroup above `kubepods` is configurable:
//!
//! | driver | path |
//! |---|---|
//! | cgroupfs | `kubepods/burstable/pod<uid>/<container>` |
//! | systemd | `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-<container>.scope` |
//!
//! Guaranteed pods have no QoS level. Slice names repeat the names above them: `kubelet-kubepods-…` below `kubelet.slice`.
//! If kubelet uses the systemd driver and the runtime does not, the runtime creates
//! `kubepods-burstable-pod<uid>.slice:cri-containerd:<container>` in its own cgroup.

use crate::PodUid;

/// A pod's level in a cgroup path.
#[derive(Debug)]
pub(crate) struct PodLevel<'a> {
    pub(crate) uid: PodUid,
    /// The names from the hierarchy's root to the pod; the first ones are missing if the path is `relative`.
    pub(crate) names: Vec<&'a str>,
    /// Whether the path starts with `..`: the reading process has another cgroup namespace root.
    pub(crate) relative: bool,
    /// The name of the next level, usually that of the container.
    pub(crate) below: Option<&'a str>,
}

/// Returns the outermost pod of a path from `/proc/<pid>/cgroup`. A pod can create cgroups below its own that look like
/// another pod's.
pub(crate) fn locate(path: &str) -> Option<PodLevel<'_>> {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path).strip_prefix('/')?;
    let mut names: Vec<&str> = path.split('/').collect();
    let climbs = names.iter().take_while(|name| **name == "..").count();
    names.drain(..climbs);
    let relative = climbs > 0;
    for (index, name) in names.iter().enumerate() {
        // Users can create cgroups with any name below `user.slice`, which never contains a pod of the node.
        if ["user.slice", ".."].contains(name) {
            return None;
        }
        if let Some((uid, inline)) = uid_of(name, &names[..index], relative) {
            let below = inline.or_else(|| names.get(index + 1).copied());
            names.truncate(index + 1);
            return Some(PodLevel { uid, names, relative, below });
        }
    }
    None
}

/// Returns the UID if this is the name of a pod's cgroup at this place, and the name after a colon.
fn uid_of<'a>(name: &'a str, above: &[&str], relative: bool) -> Option<(PodUid, Option<&'a str>)> {
    if let Some((slice, rest)) = name.split_once(".slice") {
        let below = match rest.strip_prefix(':') {
            Some(below) => Some(below),
            None if rest.is_empty() => None,
            None => return None,
        };
        return Some((uid_of_slice(slice)?, below));
    }
    let uid = name.strip_prefix("pod")?.parse().ok()?;
    is_kubepods(above, relative).then_some((uid, None))
}

fn uid_of_slice(slice: &str) -> Option<PodUid> {
    let (above, uid) = slice.rsplit_once("-pod")?;
    let above = QOS.iter().find_map(|qos| above.strip_suffix(qos)?.strip_suffix('-')).unwrap_or(above);
    let is_kubepods = above == "kubepods" || above.ends_with("-kubepods");
    is_kubepods.then(|| uid.parse().ok())?
}

const QOS: [&str; 2] = ["burstable", "besteffort"];

/// Whether these names are the parent of pods' cgroups. In a relative path they can be missing: from inside a pod, another
/// pod is `/../../pod<uid>`.
fn is_kubepods(above: &[&str], relative: bool) -> bool {
    match above {
        [] => relative,
        [.., "kubepods"] => true,
        [above @ .., qos] if QOS.contains(qos) => match above {
            [] => relative,
            [.., last] => *last == "kubepods",
        },
        _ => false,
    }
}
