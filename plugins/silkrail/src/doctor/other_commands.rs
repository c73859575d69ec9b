//! Input of the doctor that other commands provide: stale resources (`gc`), the node file (`apply`) and the devices for the kubelet
//! (`devices`).

use std::{fs, io, os::unix::net::UnixStream, path::Path};

use ::doctor::{
    DefinedNetwork, DesiredDcb, DesiredState, DesiredVfs, InvalidResource, OfferedResource, ResourceFacts,
    StaleResource, UnhealthyDevice,
};
use device_plugin::{Config, NodeReader, NodeReport, ResourceFileError, ResourceFiles, ResourceSpec};
use inventory::{Inventory, NodePaths};
use kubelet_checkpoint::{KubeletCheckpoint, KubeletDirectory};
use podmap::PodMap;
use provision::NodeFile;
use serde_json::Value;
use state::StateDir;
use sysfs::Sysfs;

use crate::{
    documents,
    exit::CommandError,
    gc,
    resource_files::{self, below},
};

const NODE_FILE: &str = "/etc/silkrail/node.yaml";
const KUBELET: &str = "/var/lib/kubelet/device-plugins";

/// Returns the NetworkAttachmentDefinitions of a file.
pub(super) fn networks(file: &Path) -> Result<Vec<DefinedNetwork>, CommandError> {
    let objects = documents::objects(file, "NetworkAttachmentDefinition")?;
    let definition = |object: Value| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let metadata = &object["metadata"];
        DefinedNetwork {
            namespace: text(&metadata["namespace"]).unwrap_or_else(|| "default".to_owned()),
            name: text(&metadata["name"]).unwrap_or_default(),
            config: text(&object["spec"]["config"]).unwrap_or_default(),
            resource: text(&metadata["annotations"]["k8s.v1.cni.cncf.io/resourceName"]),
        }
    };
    Ok(objects.into_iter().map(definition).collect())
}

/// Returns the findings of `silkrail gc`.
pub(super) fn stale_resources(root: &Path, state_dir: &Path) -> Result<Vec<StaleResource>, String> {
    gc::stale_resources(root, &below(root, state_dir)).map_err(|why| why.to_string())
}

/// Returns the state that `silkrail apply` would set; `None` if the node has no node file.
pub(super) fn desired_state(root: &Path, state_dir: &Path) -> Result<Option<DesiredState>, String> {
    let text = match fs::read_to_string(below(root, Path::new(NODE_FILE))) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{NODE_FILE}: {error}")),
    };
    let mut wanted = DesiredState { file: NODE_FILE.to_owned(), ..DesiredState::default() };
    let file = match NodeFile::parse(&text) {
        Ok(file) => file,
        Err(error) => {
            wanted.problem = Some(error.to_string());
            return Ok(Some(wanted));
        }
    };
    wanted.mode = file.rdma_mode;
    // What else is invalid there is reported with the devices for the kubelet.
    wanted.traffic_class = Config::parse(&text).ok().and_then(|config| config.fabric.traffic_class);
    let node = NodePaths { root: root.to_owned(), state: StateDir::at(below(root, state_dir)) };
    let inventory = Inventory::read(&node).map_err(|why| format!("{NODE_FILE}: {why}"))?;
    for settings in &file.pfs {
        let before = wanted.vfs.len();
        let pfs = || inventory.pfs.iter().filter(|pf| settings.matches.holds(pf));
        let links = pfs().filter_map(|pf| pf.link.as_ref());
        wanted.dcb.extend(links.filter_map(|link| {
            Some(DesiredDcb { link: link.name.to_string(), settings: settings.dcb.clone()? })
        }));
        wanted.vfs.extend(pfs().map(|pf| DesiredVfs { pf: pf.pci.to_string(), count: settings.vfs }));
        if wanted.vfs.len() == before && !settings.optional {
            wanted.unmatched.push(settings.matches.to_string());
        }
    }
    Ok(Some(wanted))
}

/// Returns the resources that silkraild offers, with its verdicts on their devices; none if it offers no devices.
pub(super) fn resources(root: &Path, state_dir: &Path) -> Result<ResourceFacts, String> {
    let directory = KubeletDirectory(below(root, Path::new(KUBELET)));
    let registered = registered_resources(&directory);
    let Some(file) = resource_files::of_node(root) else {
        return Ok(ResourceFacts { registered, ..ResourceFacts::default() });
    };
    let invalid = |what: String| InvalidResource { file: file.display().to_string(), what };
    let ResourceFiles { resources, fabric, findings } =
        match resource_files::read(std::slice::from_ref(&file)) {
            Ok(files) => files,
            Err(ResourceFileError::Invalid { error, .. }) => {
                return Ok(ResourceFacts {
                    invalid: vec![invalid(error.to_string())],
                    registered,
                    ..ResourceFacts::default()
                });
            }
            Err(error @ ResourceFileError::Read { .. }) => return Err(error.to_string()),
        };
    let kubelet = directory.0.clone();
    let reader = NodeReader {
        root: root.to_owned(),
        sysfs: Sysfs::at(root.join("sys")),
        pod_map: PodMap::below(&below(root, state_dir)),
        kubelet: directory,
        fabric,
    };
    let reading = reader.read().map_err(|error| error.to_string())?;
    let report = NodeReport::new(&resources, &reading);
    // Without the kubelet, or with another directory of it, there is nothing to serve here.
    let is_kubelet_there = UnixStream::connect(kubelet.join("kubelet.sock")).is_ok();
    let offered = |resource: &ResourceSpec| {
        let name = resource.name.to_string();
        let of_resource = report.devices.iter().filter(|device| device.resource == name);
        let (unhealthy, healthy): (Vec<_>, Vec<_>) =
            of_resource.partition(|device| device.unhealthy.is_some());
        let unhealthy = unhealthy.into_iter().map(|device| UnhealthyDevice {
            id: device.id.clone(),
            reason: device.unhealthy.clone().unwrap_or_default(),
        });
        let is_served =
            is_kubelet_there.then(|| UnixStream::connect(kubelet.join(resource.name.socket_name())).is_ok());
        OfferedResource { name, is_served, healthy: healthy.len(), unhealthy: unhealthy.collect() }
    };
    Ok(ResourceFacts {
        offered: resources.iter().map(offered).collect(),
        invalid: findings.into_iter().map(|finding| invalid(finding.what)).collect(),
        unknown: reading.warnings,
        registered,
    })
}

/// Returns the resources that device plugins have registered with the kubelet; `None` without a kubelet.
fn registered_resources(kubelet: &KubeletDirectory) -> Option<Vec<String>> {
    if !kubelet.checkpoint().is_file() {
        return None;
    }
    KubeletCheckpoint::read(kubelet)
        .ok()
        .map(|checkpoint| checkpoint.resources().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_definition_has_its_namespace_and_its_resource() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let yaml = "kind: NetworkAttachmentDefinition\nmetadata: {name: a}\n---\nkind: NetworkAttachmentDefinition\n\
            metadata:\n  name: b\n  namespace: ai\n  annotations: {k8s.v1.cni.cncf.io/resourceName: a.io/vf}\n\
            spec: {config: '{}'}\n";
        fs::write(file.path(), yaml).unwrap();
        let definition = |namespace: &str, name: &str, config: &str, resource: Option<&str>| DefinedNetwork {
            namespace: namespace.into(),
            name: name.into(),
            config: config.into(),
            resource: resource.map(str::to_owned),
        };
        let expected = [definition("default", "a", "", None), definition("ai", "b", "{}", Some("a.io/vf"))];
        assert_eq!(networks(file.path()).unwrap(), expected);
    }
}
