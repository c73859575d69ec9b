//! Which pods have which devices: by the kubelet's checkpoint, those that were allocated to them; by the pod map, those of their
//! networks.

use std::{collections::BTreeSet, fmt, io, path::PathBuf};

use kubelet_checkpoint::{CheckpointError, KubeletCheckpoint};
use podmap::{AttachMode, Entry};

use crate::{
    DeviceUse, Holder, NodeDevice, NodeReader, ResourceMode, ResourceSpec, allocation::answered_nodes,
};

/// Which pods have which devices.
#[derive(Debug)]
pub(crate) struct PodUse {
    /// The networks of pods, of this boot.
    pub(crate) entries: Vec<Entry>,
    checkpoint: KubeletCheckpoint,
}

/// Why it is unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PodUseError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error("the pod map cannot be read: {0}")]
    PodMap(#[from] podmap::Error),
    #[error("the boot ID cannot be read: {0}")]
    BootId(#[from] io::Error),
}

/// An interface of a pod has a device that the kubelet has not allocated to it, and may allocate to another pod.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrongDevice {
    pod: String,
    interface: String,
    network: String,
    resource: String,
    allocated: String,
    device: String,
}

impl PodUse {
    /// Reads it. An entry that cannot be read is reported by the resources.
    pub(crate) fn read(node: &NodeReader) -> Result<Self, PodUseError> {
        let boot_id = bootid::current()?;
        let entries = node.pod_map.read_all()?.into_iter().flatten();
        let entries = entries.filter(|entry| entry.boot_id == boot_id).collect();
        Ok(Self { entries, checkpoint: KubeletCheckpoint::read(&node.kubelet)? })
    }

    /// Returns the UID of the pod to which the kubelet has allocated the devices. Until the kubelet notices that a former pod has
    /// ended, its checkpoint has both.
    pub(crate) fn pod_with(&self, spec: &ResourceSpec, ids: &[String]) -> Option<String> {
        let uids = self.pods_with(spec, ids);
        let is_exclusive = matches!(spec.mode, ResourceMode::Exclusive(_));
        // The entry of a scalable function has no address.
        let has_device =
            |entry: &Entry| !is_exclusive || entry.rdma.pci.is_none_or(|pci| ids.contains(&pci.to_string()));
        let mut candidates: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| uid_of(entry).is_some_and(|uid| uids.contains(uid)) && has_device(entry))
            .collect();
        candidates.sort_by(|one, two| one.created_at.cmp(&two.created_at));
        let newest = candidates.last().and_then(|entry| uid_of(entry));
        newest.or_else(|| uids.first().copied()).map(str::to_owned)
    }

    /// Returns the device nodes of the container to which the devices are allocated, of all its resources.
    pub(crate) fn nodes_of_container(
        &self,
        pod: &str,
        spec: &ResourceSpec,
        ids: &[String],
    ) -> BTreeSet<PathBuf> {
        let resource = spec.name.to_string();
        let answers = self.checkpoint.answers_to_container(pod, &resource, &ids.iter().cloned().collect());
        answers.iter().flat_map(|answer| answered_nodes(answer)).collect()
    }

    /// Returns who has a device that the kubelet has allocated to another pod.
    pub(crate) fn other_holder(&self, spec: &ResourceSpec, device: &NodeDevice) -> Option<Holder> {
        let boot_id = &self.entries.first()?.boot_id;
        let device_use = DeviceUse::new(&self.entries, boot_id, Some(self.checkpoint.clone()));
        let is_allocated = device_use.is_allocated(&spec.name.to_string(), &device.id);
        is_allocated.then(|| device_use.other_holder(&spec.name.to_string(), device)).flatten()
    }

    /// Returns an interface, of the pod with these devices, whose device is offered to the kubelet and not allocated to that pod:
    /// its network names the device itself.
    pub(crate) fn wrong_device(
        &self,
        spec: &ResourceSpec,
        ids: &[String],
        offered: &BTreeSet<String>,
    ) -> Option<WrongDevice> {
        self.pods_with(spec, ids).into_iter().find_map(|uid| {
            let networks = podmap::of_pod(&self.entries, uid);
            networks.into_iter().filter(|entry| entry.rdma.mode != AttachMode::Shared).find_map(|entry| {
                let device = entry.rdma.pci?.to_string();
                let is_wrong = offered.contains(&device) && !self.checkpoint.is_allocated_to(uid, &device);
                let pod = entry.pod.as_ref()?;
                is_wrong.then(|| WrongDevice {
                    pod: format!("{}/{}", pod.namespace, pod.name),
                    interface: entry.network.ifname.clone(),
                    network: entry.network.name.clone(),
                    resource: spec.name.to_string(),
                    allocated: ids.join(", "),
                    device,
                })
            })
        })
    }

    /// Returns the UIDs of the pods to which the kubelet has allocated one of the devices.
    fn pods_with(&self, spec: &ResourceSpec, ids: &[String]) -> BTreeSet<&str> {
        let resource = spec.name.to_string();
        ids.iter().flat_map(|id| self.checkpoint.pods(&resource, id)).collect()
    }
}

fn uid_of(entry: &Entry) -> Option<&str> {
    entry.pod.as_ref()?.uid.as_deref()
}

impl fmt::Display for WrongDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, interface, network, resource, allocated, device } = self;
        write!(
            f,
            "{resource}: pod {pod} was allocated {allocated}, but its interface {interface} (network {network}) has {device}, \
             which was not allocated to it: remove deviceID from the configuration of the network, set its annotation \
             k8s.v1.cni.cncf.io/resourceName, and delete the pod"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use identifiers::Attachment;
    use kubelet_checkpoint::KubeletDirectory;
    use podmap::PodRef;
    use serde_json::json;

    use super::*;
    use crate::Config;

    fn entry(pod: &str, device: &str, created_at: &str) -> Entry {
        let attachment = Attachment { container_id: pod.parse().unwrap(), ifname: "net1".parse().unwrap() };
        let mut entry = Entry::new("sriov", attachment);
        entry.created_at = created_at.into();
        entry.pod = Some(PodRef { namespace: "default".into(), name: pod.into(), uid: Some(pod.into()) });
        entry.rdma.pci = device.parse().ok();
        entry
    }

    #[test]
    fn the_pod_of_a_device_is_the_newest_whose_network_has_it() {
        let (device, other) = ("0000:af:00.2", "0000:af:00.3");
        let dir = tempfile::tempdir().unwrap();
        let kubelet = KubeletDirectory(dir.path().to_owned());
        let allocation = |pod: &str| json!({"PodUID": pod, "ResourceName": "a.io/vf", "DeviceIDs": [device]});
        let pods: Vec<_> = ["former", "late", "present"].map(allocation).into();
        fs::write(kubelet.checkpoint(), json!({"Data": {"PodDeviceEntries": pods}}).to_string()).unwrap();
        let checkpoint = KubeletCheckpoint::read(&kubelet).unwrap();
        let text = "resourceList: [{resourceName: vf, resourcePrefix: a.io, selectors: {isRdma: true}}]";
        let spec = Config::parse(text).unwrap().resources.remove(0);
        let pod = |entries: Vec<Entry>| {
            let pods = PodUse { entries, checkpoint: checkpoint.clone() };
            pods.pod_with(&spec, &[device.to_owned()]).unwrap()
        };
        let former = || entry("former", device, "2026-01-01T00:00:00Z");
        let present = || entry("present", device, "2026-01-01T00:00:01Z");
        let elsewhere = entry("late", other, "2026-01-01T00:00:02Z");
        let unallocated = entry("stranger", device, "2026-01-01T00:00:03Z");
        assert_eq!(pod(vec![present(), former(), elsewhere, unallocated]), "present");
        // The entry of a scalable function has no address.
        assert_eq!(pod(vec![present(), entry("late", "", "2026-01-01T00:00:02Z")]), "late");
        assert_eq!(pod(Vec::new()), "former", "without a network of Silkrail");
    }
}
