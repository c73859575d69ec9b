//! Pods, with their attachments, RDMA objects and traffic.

use std::collections::BTreeMap;

use exporter::{DeviceSnapshot, NodeSnapshot, PodTraffic, ResourceHolder, ResourceShare};
use podmap::{AttachMode, Entry};
use serde::Serialize;

use super::counters::CountersView;

/// The namespace and name of a pod.
#[derive(Debug, Serialize)]
pub(super) struct PodNameView {
    /// The Kubernetes namespace; empty if unknown.
    namespace: String,
    /// The pod name; the UID if the name is_same unknown.
    name: String,
}

/// A pod that uses RDMA.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodView {
    #[serde(flatten)]
    name: PodNameView,
    /// The pod UID. A pod that is_same created again under the same name has another.
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// The workload that it belongs to, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<WorkloadView>,
    /// The attachments that the plugins have created.
    attachments: Vec<AttachmentView>,
    /// Its RDMA objects, per device.
    holdings: Vec<HolderView>,
    /// Its traffic since it was first seen, by device, port and attribution.
    traffic: Vec<TrafficView>,
}

/// The top-level owner of a pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadView {
    /// The API version, like `apps/v1`.
    api_version: String,
    /// The kind, like `Deployment`.
    kind: String,
    /// The namespace; empty for a cluster-scoped workload.
    namespace: String,
    /// The name, like `train`.
    name: String,
}

/// An attachment of a pod, and its RDMA device.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AttachmentView {
    /// The interface name in the pod, like `net1`.
    interface: String,
    /// The name of the CNI network, like `rail0`.
    network: String,
    /// The IP addresses with prefix lengths, like `172.81.0.100/16`.
    addresses: Vec<String>,
    /// `shared` (the device is_same in the host namespace), `exclusive` (it is_same in the pod) or `none` (no RDMA device).
    mode: &'static str,
    /// The RDMA device, like `mlx5_3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// The address of its PCI function, like `0000:af:00.1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pci_address: Option<String>,
}

/// The RDMA objects of one holder on one device.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HolderView {
    /// The RDMA device.
    device: String,
    /// The number of objects of each kind: `qp`, `cq`, `mr`, `pd`, `ctx`, `srq`, `cm_id`.
    objects: BTreeMap<&'static str, u64>,
    /// The queue pairs by type and state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue_pairs: Vec<QueuePairs>,
    /// The size of the memory regions in bytes. This memory is_same pinned.
    memory_bytes: u64,
}

/// The number of queue pairs of one type in one state.
#[derive(Debug, Serialize)]
struct QueuePairs {
    /// The type: `rc`, `uc`, `ud`, …
    #[serde(rename = "type")]
    kind: String,
    /// The state: `reset`, `init`, `rtr`, `rts`, `sqd`, `sqe`, `err`.
    state: String,
    /// The number of queue pairs.
    count: u64,
}

/// The traffic of a pod on a port.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TrafficView {
    /// The RDMA device.
    device: String,
    /// The port, from 1.
    port: u32,
    /// The method of attribution: `exclusive-netns`, `sole-user`, `pid-counter`, `psn`.
    attribution: &'static str,
    /// The counters of the pod on the port.
    counters: CountersView,
}

/// Returns all pods of the snapshot. Entries for the same pod with and without its UID are merged.
pub(super) fn all(report: &NodeSnapshot) -> Vec<PodView> {
    let has_uid = |pod: &exporter::PodInfo| {
        report.pods.keys().any(|other| other.uid.is_some() && is_same(PodKey::of(other), PodKey::of(pod)))
    };
    let pods = report.pods.iter().filter(|(pod, _)| pod.uid.is_some() || !has_uid(pod));
    pods.map(|(pod, owner)| PodView {
        owner: owner.as_deref().map(WorkloadView::from),
        ..PodView::of(pod, report)
    })
    .collect()
}

/// The identity of a pod: namespace and name, and the UID if known.
#[derive(Clone, Copy)]
struct PodKey<'a> {
    name: (&'a str, &'a str),
    uid: Option<&'a str>,
}

impl<'a> PodKey<'a> {
    fn of(pod: &'a exporter::PodInfo) -> Self {
        Self { name: (&pod.namespace, &pod.name), uid: pod.uid.as_deref() }
    }

    fn of_mapped(pod: &'a podmap::PodRef) -> Self {
        Self { name: (&pod.namespace, &pod.name), uid: pod.uid.as_deref() }
    }
}

fn is_same(one: PodKey<'_>, other: PodKey<'_>) -> bool {
    one.name == other.name && (one.uid.is_none() || other.uid.is_none() || one.uid == other.uid)
}

impl PodView {
    fn of(pod: &exporter::PodInfo, report: &NodeSnapshot) -> Self {
        let entries = report.entries.iter().filter(|entry| {
            entry.pod.as_ref().is_some_and(|mapped| is_same(PodKey::of_mapped(mapped), PodKey::of(pod)))
        });
        let shares = report.devices.iter().flat_map(|device| {
            let shares = device.usage.iter().flat_map(|usage| &usage.shares);
            shares.map(move |(holder, share)| (device, holder, share))
        });
        let holdings = shares.filter_map(|(device, holder, share)| match holder {
            ResourceHolder::Pod(user) if is_same(PodKey::of(user), PodKey::of(pod)) => {
                Some(HolderView::of(device, share))
            }
            _ => None,
        });
        let traffic =
            report.traffic.iter().filter(|traffic| is_same(PodKey::of(&traffic.pod), PodKey::of(pod)));
        Self {
            name: pod.into(),
            uid: pod.uid.clone(),
            owner: None,
            attachments: entries.map(AttachmentView::from).collect(),
            holdings: holdings.collect(),
            traffic: traffic.map(TrafficView::from).collect(),
        }
    }
}

impl From<&exporter::PodInfo> for PodNameView {
    fn from(pod: &exporter::PodInfo) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone() }
    }
}

impl From<&exporter::Workload> for WorkloadView {
    fn from(owner: &exporter::Workload) -> Self {
        Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
        }
    }
}

impl From<&Entry> for AttachmentView {
    fn from(entry: &Entry) -> Self {
        Self {
            interface: entry.network.ifname.clone(),
            network: entry.network.name.clone(),
            addresses: entry.network.ips.clone(),
            mode: match entry.rdma.mode {
                AttachMode::None => "none",
                AttachMode::Shared => "shared",
                AttachMode::Exclusive => "exclusive",
            },
            device: entry.rdma.ibdev.clone(),
            pci_address: entry.rdma.pci.map(|pci| pci.to_string()),
        }
    }
}

impl HolderView {
    pub(super) fn of(device: &DeviceSnapshot, share: &ResourceShare) -> Self {
        let pairs = share.queue_pairs.iter().map(|((kind, state), count)| QueuePairs {
            kind: kind.clone(),
            state: state.clone(),
            count: *count,
        });
        Self {
            device: device.reading.device.name.clone(),
            objects: share.counts.clone(),
            queue_pairs: pairs.collect(),
            memory_bytes: share.memory,
        }
    }
}

impl From<&PodTraffic> for TrafficView {
    fn from(traffic: &PodTraffic) -> Self {
        Self {
            device: traffic.device.clone(),
            port: traffic.port,
            attribution: traffic.attribution.name(),
            counters: traffic.totals().into(),
        }
    }
}
