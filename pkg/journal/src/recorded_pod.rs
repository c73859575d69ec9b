//! The pod of an attachment, as it was recorded, and whether it is gone.

use std::path::Path;

use netns::{LiveNetns, NetNsId, NetnsLiveness, NotOnNode};

use crate::boot_id;

/// What a journal, a claim or the pod map records of an attachment's pod, by which it can be told whether the pod is gone.
///
/// A path that is missing is no proof: `/proc/<pid>/ns/net` ends with one process of several, and a runtime may mount
/// namespaces where other processes do not see them. The wall clock and the list of a caller are none either. A pod is gone
/// if the node was booted since, or if no thread, mount or open file holds its namespace.
#[derive(Debug, Clone, Copy)]
pub struct RecordedPod<'a> {
    /// The boot ID of the kernel at the ADD.
    pub boot_id: &'a str,
    /// `CNI_NETNS` of the ADD.
    pub netns_path: &'a Path,
    /// The namespace at that path during the ADD, if it was recorded.
    pub netns: Option<NetNsId>,
}

impl RecordedPod<'_> {
    /// Determines whether the pod is gone, on the node with this root directory. All processes are read only if the path
    /// does not lead to the namespace. If they cannot be, the pod counts as alive.
    pub fn liveness(self, root: &Path) -> NetnsLiveness {
        if let Some(of_earlier_boot) = self.earlier_boot() {
            return of_earlier_boot;
        }
        self.netns.map_or(NetnsLiveness::Named, |id| NetnsLiveness::look(root, self.netns_path, id))
    }

    /// Determines whether the pod is gone, by the namespaces that are alive. Without them only a reboot is proof. If no
    /// namespace was recorded, the pod counts as alive.
    pub fn liveness_among(self, living: Result<&LiveNetns, &NotOnNode>) -> NetnsLiveness {
        if let Some(of_earlier_boot) = self.earlier_boot() {
            return of_earlier_boot;
        }
        match (self.netns, living) {
            (None, _) => NetnsLiveness::Named,
            (Some(id), Ok(living)) => living.liveness(self.netns_path, id),
            (Some(_), Err(unknown)) => NetnsLiveness::Held(unknown.to_string()),
        }
    }

    /// A boot ID that cannot be read, or was not recorded, proves nothing.
    fn earlier_boot(self) -> Option<NetnsLiveness> {
        let is_earlier = !self.boot_id.is_empty() && boot_id().is_ok_and(|now| now != self.boot_id);
        is_earlier.then(|| NetnsLiveness::Dead("it is from before the last boot".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_gone_only_after_a_reboot_or_if_nothing_holds_its_namespace() {
        let node = tempfile::tempdir().unwrap();
        let liveness = |boot_id, netns| {
            let pod = RecordedPod { boot_id, netns_path: Path::new("/proc/4711/ns/net"), netns };
            pod.liveness(node.path())
        };
        let (now, netns) = (boot_id().unwrap(), Some(NetNsId::new(4, 1)));
        let is_dead = |liveness: NetnsLiveness| liveness.reason_dead().is_some();
        assert!(is_dead(liveness("former", netns)) && is_dead(liveness("former", None)));
        assert_eq!(liveness(now, None), NetnsLiveness::Named, "its namespace was not recorded");
        for boot_id in [now, ""] {
            // The path is missing, but not all processes are visible.
            assert!(
                matches!(liveness(boot_id, netns), NetnsLiveness::Held(why) if why.contains("cannot determine"))
            );
        }
        let proc = node.path().join("proc");
        for process in ["1", "self"] {
            std::fs::create_dir_all(proc.join(process).join("ns")).unwrap();
            std::fs::write(proc.join(process).join("mountinfo"), "").unwrap();
        }
        std::os::unix::fs::symlink("pid:[4026531836]", proc.join("self/ns/pid")).unwrap();
        assert!(is_dead(liveness(now, netns)));
    }
}
