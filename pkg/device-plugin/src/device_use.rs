//! Who uses the devices of a node.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
};

use kubelet_checkpoint::KubeletCheckpoint;
use kubepods::PodUid;
use podmap::Entry;

use crate::{LinkType, NodeDevice, allocation::answered_nodes};

/// Who uses the devices of a node: containers by the pod map, and pods by the kubelet's checkpoint.
#[derive(Debug, Clone, Default)]
pub struct DeviceUse {
    /// By the ID of the device.
    holders: BTreeMap<String, Holder>,
    /// By UID.
    pod_names: BTreeMap<String, String>,
    /// `None` if it cannot be read: then nobody can tell whether a holder is another one.
    checkpoint: Option<KubeletCheckpoint>,
    /// The pods of the checkpoint that have ended: the kubelet removes them from it only when it allocates devices again.
    ended: BTreeSet<PodUid>,
}

/// A device that the kubelet has allocated to a pod as another resource: resources were renamed, or a device was moved to
/// another one. The kubelet takes it for a free device of its present resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the kubelet has allocated it to {pod} as {resource}: it is free when that pod is deleted")]
pub struct OtherAllocation {
    /// The other resource.
    pub resource: String,
    /// The pod: its name by the pod map, or else its UID.
    pub pod: String,
}

/// Who has a device that is not in the node's network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A pod.
    Pod {
        /// Its Kubernetes namespace and name: `default/train-0`.
        name: String,
        /// Its UID.
        uid: Option<String>,
    },
    /// A container that is not a pod, with its ID.
    Container(String),
    /// Something that the pod map does not contain.
    Unknown,
}

impl DeviceUse {
    /// Returns the use of devices by the entries of this boot, and by the kubelet's allocations.
    pub fn new(entries: &[Entry], boot_id: &str, checkpoint: Option<KubeletCheckpoint>) -> Self {
        let (mut holders, mut pod_names) = (BTreeMap::new(), BTreeMap::new());
        let mut entries: Vec<_> = entries.iter().filter(|entry| entry.boot_id == boot_id).collect();
        // The entry of a former pod remains if its DEL failed.
        entries.sort_by(|one, two| one.created_at.cmp(&two.created_at));
        for entry in entries {
            let holder = Holder::of(entry);
            if let Holder::Pod { name, uid: Some(uid) } = &holder {
                pod_names.insert(uid.clone(), name.clone());
            }
            if let Some(pci) = entry.rdma.pci {
                holders.insert(pci.to_string(), holder);
            }
        }
        Self { holders, pod_names, checkpoint, ended: BTreeSet::new() }
    }

    /// Notes the pods that have ended.
    #[must_use]
    pub fn with_ended(self, ended: BTreeSet<PodUid>) -> Self {
        Self { ended, ..self }
    }

    /// Returns the allocation of a device, to a pod that has not ended, as another resource than its own.
    pub fn other_allocation(&self, resource: &str, id: &str) -> Option<OtherAllocation> {
        let has_ended = |pod: &str| pod.parse().is_ok_and(|pod| self.ended.contains(&pod));
        let mut allocations = self.checkpoint.as_ref()?.allocations_of(id);
        let (resource, pod) = allocations.find(|(other, pod)| *other != resource && !has_ended(pod))?;
        Some(OtherAllocation { resource: resource.to_owned(), pod: self.pod_name(pod) })
    }

    /// Returns the UIDs of the pods to which the kubelet has allocated a device, as any resource.
    pub(crate) fn pods_with(&self, id: &str) -> impl Iterator<Item = &str> {
        self.checkpoint.iter().flat_map(move |checkpoint| checkpoint.allocations_of(id)).map(|(_, pod)| pod)
    }

    /// Returns who has a device that the kubelet must not give to another pod; `None` if it is free, or if the pod that the
    /// kubelet has allocated it to has it.
    pub fn other_holder(&self, resource: &str, device: &NodeDevice) -> Option<Holder> {
        let holder = self.holder(device)?;
        let mut pods = self.checkpoint.as_ref()?.pods(resource, &device.id);
        let is_allocated_to_it = match &holder {
            Holder::Pod { uid: Some(uid), .. } => pods.any(|pod| pod == uid),
            // Not every runtime tells the UID: it may be that pod.
            _ => pods.next().is_some(),
        };
        (!is_allocated_to_it).then_some(holder)
    }

    /// Whether the allocations of the kubelet are known.
    pub fn is_known(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// Whether the kubelet has allocated a device of a resource.
    pub fn is_allocated(&self, resource: &str, id: &str) -> bool {
        self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.pods(resource, id).next().is_some())
    }

    /// Returns the device nodes that each container with a device was given, for all its devices, according to the kubelet.
    pub(crate) fn given_nodes(&self, resource: &str, id: &str) -> Vec<BTreeSet<PathBuf>> {
        let answers = self.checkpoint.iter().flat_map(|checkpoint| checkpoint.answers(resource, id));
        answers.map(|answer| answered_nodes(&answer).collect()).collect()
    }

    /// Returns the pods to which the kubelet has allocated a device: their names by the pod map, or else their UIDs.
    pub fn allocated_to(&self, resource: &str, id: &str) -> Vec<String> {
        let uids = self.checkpoint.iter().flat_map(|checkpoint| checkpoint.pods(resource, id));
        uids.map(|uid| self.pod_name(uid)).collect()
    }

    fn pod_name(&self, uid: &str) -> String {
        self.pod_names.get(uid).cloned().unwrap_or_else(|| format!("UID {uid}"))
    }

    /// Returns who has a device; `None` if it is free.
    pub fn holder(&self, device: &NodeDevice) -> Option<Holder> {
        // A pod without a driver for the device may be done with it: then only the pod map tells.
        let has_user_space_driver = device.user_space.is_some();
        let is_away = is_away(device) && !has_user_space_driver;
        if !is_away && !has_user_space_driver {
            return None;
        }
        self.holders.get(&device.id).cloned().or_else(|| is_away.then_some(Holder::Unknown))
    }
}

/// Whether the RDMA device or the link of a device is in another network namespace. An InfiniBand device may have no link.
fn is_away(device: &NodeDevice) -> bool {
    let is_rdma_away = device.rdma.is_empty() && !device.char_devices.is_empty();
    let must_have_link = device.function.is_some()
        && device.pf.is_some()
        && device.driver.is_some()
        && device.link_type == Some(LinkType::Ethernet);
    is_rdma_away || must_have_link && device.links.is_empty()
}

impl Holder {
    fn of(entry: &Entry) -> Self {
        match &entry.pod {
            Some(pod) => Self::Pod { name: format!("{}/{}", pod.namespace, pod.name), uid: pod.uid.clone() },
            None => Self::Container(entry.container.sandbox_id.clone()),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { name, .. } => write!(f, "pod {name}"),
            Self::Container(id) => write!(f, "container {id}"),
            Self::Unknown => f.write_str("another network namespace"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use identifiers::Attachment;
    use kubelet_checkpoint::KubeletDirectory;
    use serde_json::json;
    use sysfs::UserSpaceNodes;

    use super::*;
    use crate::device::fixture::vf;

    fn entry(pci: &str, uid: Option<&str>, boot_id: &str) -> Entry {
        let attachment =
            Attachment { container_id: "train".parse().unwrap(), ifname: "net1".parse().unwrap() };
        let mut entry = serde_json::to_value(Entry::new("sriov", attachment)).unwrap();
        entry["bootId"] = boot_id.into();
        entry["rdma"]["pci"] = pci.into();
        if let Some(uid) = uid {
            entry["pod"] = json!({"namespace": "default", "name": "train", "uid": uid});
        }
        serde_json::from_value(entry).unwrap()
    }

    fn checkpoint(allocated: &[(&str, &str)]) -> KubeletCheckpoint {
        let dir = tempfile::tempdir().unwrap();
        let entries: Vec<_> = allocated
            .iter()
            .map(|(pod, id)| json!({"PodUID": pod, "ResourceName": "a.io/vf", "DeviceIDs": {"0": [id]}}))
            .collect();
        let file = json!({"Data": {"PodDeviceEntries": entries}});
        fs::write(dir.path().join("kubelet_internal_checkpoint"), file.to_string()).unwrap();
        KubeletCheckpoint::read(&KubeletDirectory(dir.path().to_owned())).unwrap()
    }

    fn in_pod() -> NodeDevice {
        NodeDevice { rdma: Vec::new(), links: Vec::new(), ..vf("p0", 0) }
    }

    fn other(entries: &[Entry], allocated: &[(&str, &str)], device: &NodeDevice) -> Option<String> {
        let device_use = DeviceUse::new(entries, "boot", Some(checkpoint(allocated)));
        device_use.other_holder("a.io/vf", device).map(|holder| holder.to_string())
    }

    #[test]
    fn a_device_is_with_the_pod_of_its_allocation_or_with_another() {
        let id = in_pod().id;
        let (of_pod, of_container) = ([entry(&id, Some("one"), "boot")], [entry(&id, None, "boot")]);
        for (entries, allocated, expected) in [
            (&of_pod[..], &[("one", id.as_str())][..], None),
            (&of_pod, &[("two", &id)], Some("pod default/train")),
            (&of_pod, &[("a-former", &id), ("one", &id), ("two", &id)], None),
            (&of_pod, &[("one", "0000:af:00.9")], Some("pod default/train")),
            (&of_pod, &[], Some("pod default/train")),
            (&of_container, &[], Some("container train")),
            (&of_container, &[("two", &id)], None),
            (&[], &[], Some("another network namespace")),
            (&[], &[("two", &id)], None),
            (&[entry(&id, Some("one"), "former")], &[], Some("another network namespace")),
        ] {
            let is = other(entries, allocated, &in_pod());
            assert_eq!(is.as_deref(), expected, "{entries:?} {allocated:?}");
        }
    }

    #[test]
    fn without_the_kubelets_allocations_no_holder_is_another_one() {
        let device_use = DeviceUse::new(&[], "boot", None);
        assert_eq!(device_use.other_holder("a.io/vf", &in_pod()), None);
        assert_eq!(device_use.holder(&in_pod()), Some(Holder::Unknown));
    }

    #[test]
    fn the_kubelets_pods_have_the_names_of_the_pod_map() {
        let id = in_pod().id;
        let allocations = checkpoint(&[("one", &id), ("two", &id)]);
        let device_use = DeviceUse::new(&[entry(&id, Some("one"), "boot")], "boot", Some(allocations));
        assert_eq!(device_use.allocated_to("a.io/vf", &id), ["default/train", "UID two"]);
    }

    #[test]
    fn a_device_in_the_nodes_namespace_is_free() {
        let home = vf("p0", 0);
        let stale = [entry(&home.id, Some("one"), "boot")];
        assert_eq!(other(&stale, &[], &home), None, "it returned, and its DEL is not done");
    }

    #[test]
    fn a_device_without_a_link_of_its_own_is_free() {
        let away = Some("another network namespace".to_owned());
        let no_rdma = NodeDevice { char_devices: Vec::new(), ..in_pod() };
        let infiniband = |rdma: &[&str]| NodeDevice {
            link_type: Some(LinkType::InfiniBand),
            rdma: rdma.iter().map(|name| (*name).to_owned()).collect(),
            links: Vec::new(),
            ..vf("p0", 0)
        };
        assert_eq!(other(&[], &[], &no_rdma), away);
        assert_eq!(
            (other(&[], &[], &infiniband(&["mlx5_2"])), other(&[], &[], &infiniband(&[]))),
            (None, away)
        );
        let unbound = NodeDevice { driver: None, ..no_rdma.clone() };
        let vfio = NodeDevice { user_space: Some(UserSpaceNodes::default()), ..no_rdma };
        assert_eq!((other(&[], &[], &unbound), other(&[], &[], &vfio)), (None, None));
        let held = other(&[entry(&vfio.id, Some("one"), "boot")], &[], &vfio);
        assert_eq!(held.as_deref(), Some("pod default/train"));
    }
}
