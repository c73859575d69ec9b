//! Network namespaces with RDMA devices that the pod map does not list: of pods that another plugin attached, and of processes
//! outside of Kubernetes, such as jobs of Slurm.
//!
//! The host has a uverbs device for each RDMA device of the node, in whichever network namespace that is. So a node on which no device is
//! missing is not searched, and in shared mode none ever is.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use kubepods::{ProcessOwner, Processes};
use netns::{FoundNamespaces, FoundNetNs, NetNs, NetNsId};
use podmap::{AttachMode, Entry};
use sysfs::Sysfs;

use crate::{
    CollectError, Collector, DeviceReading, ErrorReason, NameFilter, ProcessInfo, netns_target::NetnsTarget,
    pods::PodDirectory,
};

/// When a device that was not found is searched again, if no other device is missing.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// The namespaces that were found, and where the devices were in the last collection.
#[derive(Debug, Default)]
pub(crate) struct NetnsDiscovery {
    found: HashMap<NetNsId, FoundNetNs>,
    /// The namespace of each device that was read.
    seen: HashMap<String, NetNsId>,
    failed: Option<FailedSearch>,
}

/// A search after which devices were still missing.
#[derive(Debug)]
struct FailedSearch {
    missing: BTreeSet<String>,
    at: Instant,
    hidden_processes: usize,
}

/// What a search looks at.
#[derive(Debug)]
pub(crate) struct NodeView<'a> {
    pub(crate) root: &'a Path,
    pub(crate) sysfs: &'a Sysfs,
    pub(crate) host: &'a NetNs,
    pub(crate) devices: &'a NameFilter,
    /// The pod map.
    pub(crate) entries: &'a [Entry],
}

impl NetnsDiscovery {
    /// Searches the namespaces of devices that are neither on the host nor in one of the `known` namespaces.
    pub(crate) fn search(
        &mut self,
        node: &NodeView<'_>,
        known: &HashSet<NetNsId>,
    ) -> Result<(), sysfs::Error> {
        // A namespace without a device any more, or one that the pod map has by now.
        let with_devices: HashSet<NetNsId> = self.seen.values().copied().collect();
        self.found.retain(|id, _| with_devices.contains(id) && !known.contains(id));
        let missing = self.missing(node, known)?;
        if missing.is_empty() {
            self.failed = None;
            return Ok(());
        }
        let is_same =
            |failed: &FailedSearch| failed.missing == missing && failed.at.elapsed() < RETRY_INTERVAL;
        if self.failed.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        self.search_for(node, known, missing);
        Ok(())
    }

    fn search_for(&mut self, node: &NodeView<'_>, known: &HashSet<NetNsId>, mut missing: BTreeSet<String>) {
        let namespaces = FoundNamespaces::find(node.root);
        for (id, found) in namespaces.by_id {
            if missing.is_empty() {
                break;
            }
            if id == node.host.id() || known.contains(&id) || self.found.contains_key(&id) {
                continue;
            }
            // A namespace that ends meanwhile has no devices.
            let names = NetnsTarget::found(&found, None, None).device_names(node.host).unwrap_or_default();
            if names.iter().any(|name| missing.contains(name)) {
                self.found.insert(id, found);
            }
            missing.retain(|name| !names.contains(name));
        }
        let hidden_processes = namespaces.hidden_processes;
        self.failed =
            (!missing.is_empty()).then(|| FailedSearch { missing, at: Instant::now(), hidden_processes });
    }

    /// Returns the devices that no known namespace has.
    fn missing(
        &self,
        node: &NodeView<'_>,
        known: &HashSet<NetNsId>,
    ) -> Result<BTreeSet<String>, sysfs::Error> {
        let Some(uverbs) = node.sysfs.all_uverbs()? else { return Ok(BTreeSet::new()) };
        let on_host: HashSet<String> = node.sysfs.rdma_names().unwrap_or_default().into_iter().collect();
        let is_read = |id: &NetNsId| known.contains(id) || self.found.contains_key(id);
        let elsewhere: HashSet<&str> =
            self.seen.iter().filter(|(_, id)| is_read(id)).map(|(name, _)| name.as_str()).collect();
        if uverbs.len() <= on_host.len() + elsewhere.iter().filter(|name| !on_host.contains(**name)).count() {
            return Ok(BTreeSet::new());
        }
        let exclusive = node.entries.iter().filter(|entry| entry.rdma.mode == AttachMode::Exclusive);
        let mapped: HashSet<&str> = exclusive.filter_map(|entry| entry.rdma.ibdev.as_deref()).collect();
        let mut missing = BTreeSet::new();
        for uverbs in uverbs {
            missing.extend(node.sysfs.device_of_uverbs(&uverbs)?);
        }
        missing.retain(|name| {
            let is_known =
                on_host.contains(name) || elsewhere.contains(name.as_str()) || mapped.contains(name.as_str());
            !is_known && node.devices.has(name)
        });
        Ok(missing)
    }

    /// Returns the targets of the namespaces that were found, with their pods or processes as they are now.
    pub(crate) fn targets(&self, processes: &Processes, pods: &PodDirectory) -> Vec<NetnsTarget> {
        let target = |found: &FoundNetNs| {
            let Some(pid) = found.pid else { return NetnsTarget::found(found, None, None) };
            match processes.owner(pid) {
                Ok(Some(ProcessOwner::Pod(membership))) => {
                    NetnsTarget::found(found, Some(pods.of(&membership.pod)), None)
                }
                Ok(Some(ProcessOwner::Node)) => {
                    let process = ProcessInfo::of(processes, pid).map(Arc::new);
                    NetnsTarget::found(found, None, process)
                }
                Ok(None) | Err(_) => NetnsTarget::found(found, None, None),
            }
        };
        self.found.values().map(target).collect()
    }

    /// Notes where the devices were.
    pub(crate) fn note(&mut self, readings: &[DeviceReading]) {
        let away = readings.iter().filter(|reading| !reading.on_node);
        self.seen = away.map(|reading| (reading.device.name.clone(), reading.place)).collect();
    }

    /// Returns the number of devices that were not found.
    pub(crate) fn unseen(&self) -> usize {
        self.failed.as_ref().map_or(0, |failed| failed.missing.len())
    }

    /// Returns why devices are missing in the metrics.
    pub(crate) fn error(&self) -> Option<CollectError> {
        let failed = self.failed.as_ref()?;
        let names: Vec<&str> = failed.missing.iter().map(String::as_str).collect();
        let (reason, why) = if failed.hidden_processes > 0 {
            (
                ErrorReason::Permission,
                format!(
                    "{} processes may not be examined: run silkraild with the capability CAP_SYS_PTRACE, in the node's PID \
                     namespace",
                    failed.hidden_processes
                ),
            )
        } else {
            (
                ErrorReason::Unreadable,
                "no process and no file of their network namespace was found".to_owned(),
            )
        };
        let what = format!("RDMA devices in other network namespaces ({}): {why}", names.join(", "));
        Some(CollectError { collector: Collector::Devices, reason, what })
    }
}

#[cfg(test)]
mod tests;
