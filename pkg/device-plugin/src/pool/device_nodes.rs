//! The device nodes that containers were given: their numbers may be others by the time that the container starts.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use kubelet_api::deviceplugin::ContainerAllocateResponse;
use kubelet_plugin::ResourceError;

use super::{ResourcePool, error};
use crate::{NodeDevice, allocation};

impl ResourcePool {
    /// Checks that the devices have the nodes that their container was given.
    pub(super) fn check_nodes(&self, ids: &[String]) -> Result<(), ResourceError> {
        for (id, own) in self.present_nodes(ids)? {
            let known = self.state().allocated.get(&id).cloned();
            let (given, present) = match known {
                Some(given) => (vec![given], own),
                None => (self.given_before(&id), self.possible_nodes(ids)?),
            };
            // A device that is shared may have got more nodes. Of two pods only one still exists.
            if !given.is_empty() && given.iter().all(|given| !given.is_subset(&present)) {
                return Err(self.renumbered(&id, &given[0], &present));
            }
        }
        Ok(())
    }

    /// Returns the present nodes of each ID: those that only its device has, or the devices that containers share.
    fn present_nodes(&self, ids: &[String]) -> Result<BTreeMap<String, BTreeSet<PathBuf>>, ResourceError> {
        let devices = if self.is_exclusive() { self.devices_of(ids)? } else { self.state().devices.clone() };
        Ok(self.nodes_by_id(ids, &devices))
    }

    fn nodes_by_id(&self, ids: &[String], devices: &[NodeDevice]) -> BTreeMap<String, BTreeSet<PathBuf>> {
        if self.is_exclusive() {
            let nodes = |device: &NodeDevice| {
                (device.id.clone(), allocation::own_nodes(device).into_iter().collect())
            };
            return devices.iter().map(nodes).collect();
        }
        let nodes: BTreeSet<_> = devices.iter().flat_map(allocation::own_nodes).collect();
        ids.iter().map(|id| (id.clone(), nodes.clone())).collect()
    }

    /// Notes the nodes that a container was given with each ID, of devices as they were read for the answer.
    pub(super) fn note(&self, ids: &[String], devices: &[NodeDevice], answer: &ContainerAllocateResponse) {
        let is_given =
            |node: &PathBuf| answer.devices.iter().any(|given| Path::new(&given.host_path) == node);
        let mut nodes = self.nodes_by_id(ids, devices);
        nodes.values_mut().for_each(|nodes| nodes.retain(is_given));
        self.state().allocated.extend(nodes);
    }

    /// Returns the nodes that the container of a device was given before this process started, for all its devices. Those that
    /// every container gets do not tell devices apart.
    fn given_before(&self, id: &str) -> Vec<BTreeSet<PathBuf>> {
        let mut given = self.state().node.device_use.given_nodes(&self.spec.name.to_string(), id);
        let is_common = |node: &Path| {
            ["infiniband/rdma_cm", "vfio/vfio", "vhost-net", "net/tun"]
                .iter()
                .any(|name| node.ends_with(name))
        };
        given.iter_mut().for_each(|nodes| nodes.retain(|node| !is_common(node)));
        given
    }

    /// Returns the nodes that a container may have been given with any options: those of its devices or, if devices are shared, of
    /// all devices, because the selectors may have been others.
    fn possible_nodes(&self, ids: &[String]) -> Result<BTreeSet<PathBuf>, ResourceError> {
        if self.is_exclusive() {
            return Ok(self.devices_of(ids)?.iter().flat_map(allocation::own_nodes).collect());
        }
        let sysfs = &self.options.node.sysfs;
        let verbs = sysfs.all_uverbs().map_err(error)?.unwrap_or_default();
        Ok(verbs.into_iter().chain(sysfs.all_umads().map_err(error)?).map(allocation::rdma_node).collect())
    }

    fn renumbered(&self, id: &str, given: &BTreeSet<PathBuf>, present: &BTreeSet<PathBuf>) -> ResourceError {
        let (name, given, present) = (&self.spec.name, listed(given), listed(present));
        ResourceError(format!(
            "{name}: the device nodes of {id} are now {present}, and the container was given {given}: delete the pod"
        ))
    }
}

/// Returns the paths, separated by spaces.
fn listed(nodes: &BTreeSet<PathBuf>) -> String {
    nodes.iter().map(|node| node.display().to_string()).collect::<Vec<_>>().join(" ")
}
