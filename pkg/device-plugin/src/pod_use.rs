//! Which pods have which devices: by the kubelet's checkpoint, which they were allocated; by the pod map, which their networks have.

use std::{collections::BTreeSet, fmt, io, path::PathBuf};

use kubelet_plugin::{CheckpointError, KubeletCheckpoint};
use podmap::{AttachMode, Entry};

use crate::{NodeReader, ResourceMode, ResourceSpec};

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
    is: String,
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
        let nodes = answers.into_iter().flat_map(|answer| answer.devices);
        nodes.map(|node| node.host_path.into()).collect()
    }

    /// Returns an interface of the pod with these devices that has another device of the resource, which the kubelet has not
    /// allocated to that pod: its network names the device itself, or that of another resource.
    pub(crate) fn wrong_device(
        &self,
        spec: &ResourceSpec,
        ids: &[String],
        is_of_resource: impl Fn(&str) -> bool,
    ) -> Option<WrongDevice> {
        let (resource, uids) = (spec.name.to_string(), self.pods_with(spec, ids));
        self.entries.iter().filter(|entry| entry.rdma.mode != AttachMode::Shared).find_map(|entry| {
            let uid = uid_of(entry).filter(|uid| uids.contains(uid))?;
            let is = entry.rdma.pci?.to_string();
            let is_wrong =
                is_of_resource(&is) && !self.checkpoint.pods(&resource, &is).any(|owner| owner == uid);
            let pod = entry.pod.as_ref()?;
            is_wrong.then(|| WrongDevice {
                pod: format!("{}/{}", pod.namespace, pod.name),
                interface: entry.network.ifname.clone(),
                network: entry.network.name.clone(),
                resource: resource.clone(),
                allocated: ids.join(", "),
                is,
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
        let Self { pod, interface, network, resource, allocated, is } = self;
        write!(
            f,
            "{resource}: pod {pod} was allocated {allocated}, but its interface {interface} (network {network}) has {is}, \
             which was not allocated to it: the annotation k8s.v1.cni.cncf.io/resourceName of the network must be {resource}, \
             and its configuration must not contain deviceID"
        )
    }
}
