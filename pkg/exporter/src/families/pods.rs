//! Pods: attachments, objects and memory, in both RDMA modes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use exposition::{Exposition, LabelSet};
use podmap::{AttachMode, Entry};

use super::{family_type::gauge, pod_labels::with_pod};
use crate::{DeviceReading, NodeSnapshot, PodInfo, ResourceHolder, ResourceShare};

pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    info(families, report, node);
    // A set, because Prometheus rejects a scrape with duplicate series.
    let attachments: BTreeSet<LabelSet> =
        report.entries.iter().filter_map(|entry| attachment(entry, node)).collect();
    for labels in attachments {
        let help = "An RDMA device that is assigned to a pod. Always 1.";
        gauge(families, "rdma_pod_attachment_info", help).add(labels, true);
    }
    for device in &report.devices {
        gids(families, report, &device.reading, node);
        let labels = node.and("device", &device.reading.device.name);
        let mut shares: BTreeMap<LabelSet, ResourceShare> = BTreeMap::new();
        for (holder, share) in device.usage.iter().flat_map(|usage| &usage.shares) {
            if let ResourceHolder::Pod(pod) = holder {
                // A former pod with the same name can still have objects.
                shares.entry(with_pod(labels.builder(), Some(pod)).build()).or_default().add(share);
            }
        }
        shares.iter().for_each(|(labels, share)| self::share(families, labels, share));
    }
    cgroups(families, report, node);
}

fn info(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    for (pod, owner) in &report.pods {
        let mut labels = with_pod(node.builder(), Some(pod)).with_some("pod_uid", pod.uid.as_deref());
        if let Some(owner) = owner {
            labels = labels
                .with("owner_api_version", &owner.api_version)
                .with("owner_kind", &owner.kind)
                .with("owner_namespace", &owner.namespace)
                .with("owner_name", &owner.name);
        }
        let help = "A pod that uses or used RDMA, and its workload, if known. Always 1.";
        gauge(families, "rdma_pod_info", help).add(labels.build(), true);
    }
}

fn attachment(entry: &Entry, node: &LabelSet) -> Option<LabelSet> {
    let pod = entry.pod.as_ref()?;
    let mode = match entry.rdma.mode {
        AttachMode::None => return None,
        AttachMode::Shared => "shared",
        AttachMode::Exclusive => "exclusive",
    };
    let pci = entry.rdma.pci.map(|pci| pci.to_string());
    let labels = with_pod(node.builder(), Some(&Arc::new(PodInfo::from(pod))))
        .with_some("device", entry.rdma.ibdev.as_deref())
        .with("mode", mode)
        .with("network", &entry.network.name)
        .with("interface", &entry.network.ifname)
        .with_some("pci_address", pci.as_deref());
    Some(labels.build())
}

/// Attributes the entries of a GID table to pods by the pods' addresses.
fn gids(families: &mut Exposition, report: &NodeSnapshot, reading: &DeviceReading, node: &LabelSet) {
    for port in &reading.ports {
        let Some(table) = &port.gids else { continue };
        let mut counts: BTreeMap<Arc<PodInfo>, u64> = BTreeMap::new();
        for entry in &table.entries {
            if let Some(pod) = report.gid_owner(reading, entry.gid) {
                let name = PodInfo { uid: None, ..(*pod).clone() };
                *counts.entry(Arc::new(name)).or_default() += 1;
            }
        }
        for (pod, count) in counts {
            let labels =
                node.builder().with("device", &reading.device.name).with_text("port", port.port.port);
            gauge(
                families,
                "rdma_pod_gid_entries",
                "Entries of the port's GID table that belong to the pod.",
            )
            .add(with_pod(labels, Some(&pod)).build(), count);
        }
    }
}

fn share(families: &mut Exposition, labels: &LabelSet, share: &ResourceShare) {
    for (resource, count) in &share.counts {
        gauge(families, "rdma_pod_resources", "Objects of the pod on the device.")
            .add(labels.and("resource", resource), *count);
    }
    for ((kind, state), count) in &share.queue_pairs {
        gauge(families, "rdma_pod_queue_pairs", "Queue pairs of the pod, by type and state.")
            .add(labels.builder().with("type", kind).with("state", state).build(), *count);
    }
    if share.counts.contains_key("mr") {
        gauge(
            families,
            "rdma_pod_registered_memory_bytes",
            "Size of the pod's memory regions, which are pinned.",
        )
        .add(labels.clone(), share.memory);
    }
}

fn cgroups(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    let mut found: BTreeMap<LabelSet, (u64, u64)> = BTreeMap::new();
    for cgroup in &report.cgroups {
        let labels = with_pod(node.builder().with("device", &cgroup.usage.device), Some(&cgroup.pod)).build();
        let (handles, objects) = found.entry(labels).or_default();
        *handles += cgroup.usage.handles;
        *objects += cgroup.usage.objects;
    }
    for (labels, (handles, objects)) in found {
        gauge(
            families,
            "rdma_pod_cgroup_handles",
            "Open device contexts of the pod, from the rdma cgroup controller.",
        )
        .add(labels.clone(), handles);
        gauge(families, "rdma_pod_cgroup_objects", "Objects of the pod, from the rdma cgroup controller.")
            .add(labels, objects);
    }
}

#[cfg(test)]
mod tests;
