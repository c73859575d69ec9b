//! Where in a cgroup path a pod's level is.
//!
//! kubelet names it in two ways, below a cgroup of its choice:
//!
//! | driver | path |
//! |---|---|
//! | cgroupfs | `kubepods/burstable/pod<uid>/<container>` |
//! | systemd | `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-<container>.scope` |
//!
//! Guaranteed pods have no QoS level. systemd's names repeat those above: `kubelet-kubepods-…` below `kubelet.slice`.
//! A runtime that does not know that kubelet uses systemd makes `kubepods-burstable-pod<uid>.slice:cri-containerd:<container>`
//! of it, in its own cgroup.

use crate::PodUid;

/// A pod's level in a cgroup path.
#[derive(Debug)]
pub(crate) struct PodLevel<'a> {
    pub(crate) uid: PodUid,
    /// From the hierarchy's root to the pod; without its beginning if the path is `relative`.
    pub(crate) names: Vec<&'a str>,
    /// The path began in a cgroup namespace whose root is elsewhere.
    pub(crate) relative: bool,
    /// The name below the pod's.
    pub(crate) below: Option<&'a str>,
}

/// The outermost pod of a path, as the kernel writes paths; a pod may have cgroups that look like another's in its own.
pub(crate) fn locate(path: &str) -> Option<PodLevel<'_>> {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path).strip_prefix('/')?;
    let mut names: Vec<&str> = path.split('/').collect();
    let climbs = names.iter().take_while(|name| **name == "..").count();
    names.drain(..climbs);
    let relative = climbs > 0;
    for (index, name) in names.iter().enumerate() {
        // Users make cgroups of any name in theirs, and no pod of the node is there.
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

/// The UID in a name, if it is a pod's at that place, and what a colon puts below it.
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

/// Whether pods are right below these names. Seen from a cgroup namespace, the last of them may be out of sight: a
/// pod's neighbour is `/../../pod<uid>`.
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
