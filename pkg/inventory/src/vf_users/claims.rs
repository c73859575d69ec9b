//! VFs that CNI plugins assigned to pods: Silkrail's, and Go plugins that ran earlier.

use std::collections::BTreeMap;

use go_plugins::GoStateDir;
use identifiers::{Attachment, PciAddress};
use journal::RecordedPod;
use netns::LiveNetns;
use podmap::Entry;
use state::{
    claim::{self, ClaimKind},
    orphans::recorded_pod,
};

use super::evidence::{FunctionView, VfUser};
use crate::{Error, NodePaths};

/// The owners of VFs.
pub(crate) struct ClaimIndex {
    ours: BTreeMap<PciAddress, Attachment>,
    /// The pod map, since attachments of macvlan and ipvlan have no claim.
    entries: Vec<Entry>,
    go: GoStateDir,
}

impl ClaimIndex {
    /// Reads the claims whose owner exists or may exist. Stale claims are left to `silkrail gc`, and do not count.
    pub(crate) fn read(node: &NodePaths) -> Result<Self, Error> {
        let (claims, _) = claim::list(&node.state, ClaimKind::Vf)?;
        // In a container, running pods cannot be determined: then every owner counts as running.
        let entries: Vec<Entry> =
            node.state.podmap().read_all().map_err(state::Error::from)?.into_iter().flatten().collect();
        let is_empty = claims.is_empty() && entries.is_empty();
        let living = if is_empty { None } else { Some(LiveNetns::scan(&node.root)) };
        let is_alive = |pod: RecordedPod| {
            living.as_ref().is_none_or(|living| pod.liveness_among(living.as_ref()).reason_dead().is_none())
        };
        let entries = entries.into_iter().filter(|entry| is_alive(recorded_pod(entry))).collect();
        let claims = claims.iter().filter(|claim| is_alive(claim.pod()));
        let ours = claims.filter_map(|claim| Some((claim.device().1.pci()?, claim.owner().clone())));
        Ok(Self { ours: ours.collect(), entries, go: GoStateDir::below(&node.root) })
    }

    /// Returns the owners of a function. `uppers` are the links on top of its own, such as a VLAN that a pod's macvlan is on.
    pub(crate) fn of(&self, seen: &FunctionView<'_>, uppers: &[String]) -> Vec<VfUser> {
        let claimed = self.ours.get(&seen.pci).cloned();
        let mapped = self.entries.iter().filter(|entry| is_on(entry, seen, uppers)).filter_map(attachment);
        let mut ours: Vec<Attachment> = claimed.into_iter().chain(mapped).collect();
        ours.sort();
        ours.dedup();
        let ours = ours.into_iter().map(|attachment| VfUser::Attachment { attachment });
        let theirs = self.go.allocation(seen.pci).filter(|allocation| allocation.is_alive());
        let theirs = theirs.map(|allocation| VfUser::GoPlugin { netns: allocation.netns().to_owned() });
        ours.chain(theirs).collect()
    }
}

/// Whether a pod has the function, or an interface on its link or on one of the upper links: a macvlan in a pod is not visible on the host.
fn is_on(entry: &Entry, seen: &FunctionView<'_>, uppers: &[String]) -> bool {
    let rdma = &entry.rdma;
    // For a VF, `master` is its PF. So it is for a scalable function, which is not listed: its pod is a user of the PF.
    let master = rdma.master.as_deref().filter(|_| rdma.vf_index.is_none());
    let is_link = |name: &str| {
        seen.link.is_some_and(|link| link.as_str() == name) || uppers.iter().any(|upper| upper == name)
    };
    rdma.pci == Some(seen.pci) || master.is_some_and(is_link)
}

fn attachment(entry: &Entry) -> Option<Attachment> {
    format!("{}@{}", entry.container.sandbox_id, entry.network.ifname).parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::symlink,
        path::{Path, PathBuf},
        time::Instant,
    };

    use state::{StateDir, claim::DeviceClaim};
    use sysfs::Function;

    use super::*;

    fn seen(pci: PciAddress) -> FunctionView<'static> {
        FunctionView { pci, driver: None, link: None, rdma: &[] }
    }

    #[test]
    fn a_pod_with_an_interface_on_a_link_uses_its_function() {
        let root = tempfile::tempdir().unwrap();
        let node = NodePaths { root: root.path().to_owned(), state: StateDir::at(root.path().join("run")) };
        let (pod, vfs): (Attachment, Attachment) = ("a@net1".parse().unwrap(), "b@net1".parse().unwrap());
        let mut entry = Entry::new("macvlan", pod.clone());
        entry.rdma.master = Some("ens6f0np0".into());
        node.state.podmap().write(&pod, &entry).unwrap();
        let vlan: Attachment = "c@net1".parse().unwrap();
        entry = Entry::new("macvlan", vlan.clone());
        entry.rdma.master = Some("ens6f0np0.7".into());
        node.state.podmap().write(&vlan, &entry).unwrap();
        let mut of_vf = Entry::new("sriov", vfs.clone());
        of_vf.rdma.master = Some("ens6f0np0".into());
        of_vf.rdma.vf_index = Some(0);
        of_vf.rdma.pci = Some("0000:af:00.2".parse().unwrap());
        node.state.podmap().write(&vfs, &of_vf).unwrap();
        let link = "ens6f0np0".parse().unwrap();
        let pf = FunctionView { link: Some(&link), ..seen("0000:af:00.0".parse().unwrap()) };
        let claims = ClaimIndex::read(&node).unwrap();
        let of_pod = |name: &str| VfUser::Attachment { attachment: format!("{name}@net1").parse().unwrap() };
        assert_eq!(claims.of(&pf, &[]), [of_pod("a")], "a VF's pod is the VF's user");
        assert_eq!(claims.of(&pf, &["ens6f0np0.7".into()]), [of_pod("a"), of_pod("c")]);
        assert!(claims.of(&seen("0000:af:00.0".parse().unwrap()), &[]).is_empty());
        assert_eq!(claims.of(&seen("0000:af:00.2".parse().unwrap()), &[]), [of_pod("b")]);
    }

    #[test]
    fn a_vf_is_claimed_while_the_namespace_of_its_pod_exists() {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc");
        for process in ["1", "self"] {
            fs::create_dir_all(proc.join(process).join("ns")).unwrap();
            fs::create_dir_all(proc.join(process).join("task")).unwrap();
            fs::write(proc.join(process).join("mountinfo"), "").unwrap();
        }
        symlink("pid:[4026531836]", proc.join("self/ns/pid")).unwrap();
        symlink("/proc/self/ns/net", root.path().join("netns")).unwrap();
        let node = NodePaths { root: root.path().to_owned(), state: StateDir::at(root.path().join("run")) };
        let namespace = netns::NetNs::open(Path::new("/proc/self/ns/net")).unwrap().id();
        let gone = netns::NetNsId::new(namespace.dev, 1);
        for (vf, id, is_claimed, is_mapped) in [
            ("0000:af:00.2", namespace, true, false),
            ("0000:af:00.3", gone, true, false),
            ("0000:af:00.4", namespace, false, true),
            ("0000:af:00.5", gone, false, true),
            ("0000:af:00.6", namespace, true, true),
        ] {
            let (pci, owner): (PciAddress, Attachment) =
                (vf.parse().unwrap(), format!("{}@net1", vf.replace([':', '.'], "-")).parse().unwrap());
            let path = PathBuf::from(if id == gone { "/gone" } else { "/netns" });
            if is_claimed {
                let claim =
                    DeviceClaim::of(ClaimKind::Vf, Function::Pci(pci), &owner, path.clone(), id).unwrap();
                claim.acquire(&node.state, &Instant::now, |_| Ok::<_, state::Error>(true)).unwrap();
            }
            if is_mapped {
                let mut entry = Entry::new("sriov", owner.clone());
                (entry.container.netns_path, entry.rdma.pci) = (path, Some(pci));
                (entry.container.netns_dev, entry.container.netns_ino) = (id.dev, id.ino);
                entry.container.netns_cookie = id.cookie;
                node.state.podmap().write(&owner, &entry).unwrap();
            }
            let users = ClaimIndex::read(&node).unwrap().of(&seen(pci), &[]);
            let expected = if id == gone { vec![] } else { vec![VfUser::Attachment { attachment: owner }] };
            assert_eq!(users, expected, "{vf}");
        }
    }

    /// study case V7. The namespace must differ from this thread's, which counts as the node's and not as a pod's.
    #[test]
    fn a_file_of_a_go_plugin_counts_while_its_namespace_exists() {
        let root = tempfile::tempdir().unwrap();
        let node = NodePaths { root: root.path().to_owned(), state: StateDir::at(root.path().join("run")) };
        let dir = root.path().join("var/lib/cni/sriov/pci");
        fs::create_dir_all(&dir).unwrap();
        let vf: PciAddress = "0000:af:00.2".parse().unwrap();
        let mut pod = std::process::Command::new("unshare").args(["--net", "sleep", "60"]).spawn().unwrap();
        let netns = format!("/proc/{}/ns/net", pod.id());
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        while fs::read_link(&netns).unwrap() == own {
            std::thread::yield_now();
        }
        fs::write(dir.join(vf.to_string()), &netns).unwrap();
        let users = || ClaimIndex::read(&node).unwrap().of(&seen(vf), &[]);
        assert_eq!(users(), [VfUser::GoPlugin { netns: netns.clone().into() }]);
        pod.kill().unwrap();
        pod.wait().unwrap();
        assert!(users().is_empty(), "{netns} is gone");
    }
}
