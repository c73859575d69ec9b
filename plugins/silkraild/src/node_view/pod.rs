//! Pods, and what they have.

use std::collections::BTreeMap;

use exporter::{DeviceSnapshot, NodeSnapshot, PodTraffic, ResourceHolder, ResourceShare};
use podmap::{AttachMode, Entry};
use serde::Serialize;

use super::counters::CountersView;

/// What a pod is called.
#[derive(Debug, Serialize)]
pub(super) struct PodNameView {
    /// Its namespace; empty if nobody knows it.
    namespace: String,
    /// Its name; its UID if nobody knows it.
    name: String,
}

/// One pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodView {
    #[serde(flatten)]
    name: PodNameView,
    /// A pod that is made again under its name has another.
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// The workload that it belongs to, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<WorkloadView>,
    /// The interfaces that it was given.
    attachments: Vec<AttachmentView>,
    /// The objects that it has, device by device.
    holdings: Vec<HolderView>,
    /// What it has done since it was first seen, by device, port and how that is known.
    traffic: Vec<TrafficView>,
}

/// The workload at the top.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadView {
    /// `apps/v1`.
    api_version: String,
    /// `Deployment`.
    kind: String,
    /// Its namespace.
    namespace: String,
    /// Its name.
    name: String,
}

/// An interface of a pod, and the RDMA device with it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AttachmentView {
    /// The interface's name in the pod.
    interface: String,
    /// The network's name.
    network: String,
    /// Its addresses with their prefix lengths.
    addresses: Vec<String>,
    /// `shared`, the device is the node's; `exclusive`, it is in the pod; `none`, there is none.
    mode: &'static str,
    /// The RDMA device.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// Its PCI function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pci_address: Option<String>,
}

/// What somebody has of a device.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HolderView {
    /// The RDMA device.
    device: String,
    /// How many objects of each kind: `qp`, `cq`, `mr`, `pd`, `ctx`, `srq`, `cm_id`.
    objects: BTreeMap<&'static str, u64>,
    /// Its queue pairs by type and state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue_pairs: Vec<QueuePairs>,
    /// Bytes of the memory regions: they are pinned.
    memory_bytes: u64,
}

/// Queue pairs of one type in one state.
#[derive(Debug, Serialize)]
struct QueuePairs {
    /// `rc`, `uc`, `ud`, …
    #[serde(rename = "type")]
    kind: String,
    /// `reset`, `init`, `rtr`, `rts`, `sqd`, `sqe`, `err`.
    state: String,
    /// How many.
    count: u64,
}

/// What a pod has done on a port.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TrafficView {
    /// The RDMA device.
    device: String,
    /// The port, from 1.
    port: u32,
    /// How it is known: `exclusive-netns`, `sole-user`, `pid-counter`, `psn`.
    attribution: &'static str,
    /// What was counted.
    counters: CountersView,
}

/// Every pod that has something. A pod that one source knows with its UID and another without is one.
pub(super) fn all(report: &NodeSnapshot) -> Vec<PodView> {
    let has_uid = |pod: &exporter::PodInfo| {
        report.pods.keys().any(|other| other.uid.is_some() && is(PodKey::of(other), PodKey::of(pod)))
    };
    let pods = report.pods.iter().filter(|(pod, _)| pod.uid.is_some() || !has_uid(pod));
    pods.map(|(pod, owner)| PodView {
        owner: owner.as_deref().map(WorkloadView::from),
        ..PodView::of(pod, report)
    })
    .collect()
}

/// What tells a pod from others: namespace and name, and its UID if that is known.
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

fn is(one: PodKey<'_>, other: PodKey<'_>) -> bool {
    one.name == other.name && (one.uid.is_none() || other.uid.is_none() || one.uid == other.uid)
}

impl PodView {
    fn of(pod: &exporter::PodInfo, report: &NodeSnapshot) -> Self {
        let entries = report.entries.iter().filter(|entry| {
            entry.pod.as_ref().is_some_and(|mapped| is(PodKey::of_mapped(mapped), PodKey::of(pod)))
        });
        let shares = report.devices.iter().flat_map(|device| {
            let shares = device.usage.iter().flat_map(|usage| &usage.shares);
            shares.map(move |(holder, share)| (device, holder, share))
        });
        let holdings = shares.filter_map(|(device, holder, share)| match holder {
            ResourceHolder::Pod(user) if is(PodKey::of(user), PodKey::of(pod)) => {
                Some(HolderView::of(device, share))
            }
            _ => None,
        });
        let traffic = report.traffic.iter().filter(|traffic| is(PodKey::of(&traffic.pod), PodKey::of(pod)));
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
