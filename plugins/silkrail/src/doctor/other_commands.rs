//! Input of the doctor that other commands provide: stale resources (`gc`), the node file (`apply`) and the devices for the kubelet
//! (`devices`).

use std::{fs, io, path::Path};

use ::doctor::{
    DesiredState, DesiredVfs, InvalidResource, OfferedResource, ResourceFacts, StaleResource, UnhealthyDevice,
};
use device_plugin::{NodeReader, NodeReport, ResourceFiles};
use inventory::{Inventory, NodePaths};
use kubelet_plugin::KubeletDirectory;
use podmap::PodMap;
use provision::NodeFile;
use state::StateDir;
use sysfs::Sysfs;

use crate::{
    gc,
    resource_files::{self, below},
};

const NODE_FILE: &str = "/etc/silkrail/node.yaml";
const KUBELET: &str = "/var/lib/kubelet/device-plugins";

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
    let node = NodePaths { root: root.to_owned(), state: StateDir::at(below(root, state_dir)) };
    let inventory = Inventory::read(&node).map_err(|why| format!("{NODE_FILE}: {why}"))?;
    for settings in &file.pfs {
        let before = wanted.vfs.len();
        let pfs = inventory.pfs.iter().filter(|pf| settings.matches.holds(pf));
        wanted.vfs.extend(pfs.map(|pf| DesiredVfs { pf: pf.pci.to_string(), count: settings.vfs }));
        if wanted.vfs.len() == before && !settings.optional {
            wanted.unmatched.push(settings.matches.to_string());
        }
    }
    Ok(Some(wanted))
}

/// Returns the resources that silkraild offers, with its verdicts on their devices; none if it offers no devices.
pub(super) fn resources(root: &Path, state_dir: &Path) -> Result<ResourceFacts, String> {
    let files = resource_files::of_node(root);
    if files.is_empty() {
        return Ok(ResourceFacts::default());
    }
    let ResourceFiles { resources, fabric, findings } =
        ResourceFiles::read(&files).map_err(|error| error.to_string())?;
    let reader = NodeReader {
        sysfs: Sysfs::at(root.join("sys")),
        pod_map: PodMap::below(&below(root, state_dir)),
        kubelet: KubeletDirectory(below(root, Path::new(KUBELET))),
        fabric,
    };
    let report = NodeReport::new(&resources, &reader.read().map_err(|error| error.to_string())?);
    let offered = resources.iter().map(|resource| {
        let name = resource.name.to_string();
        let own = report.devices.iter().filter(|device| device.resource == name);
        let (mut healthy, mut unhealthy) = (0, Vec::new());
        for device in own {
            match &device.unhealthy {
                None => healthy += 1,
                Some(reason) => {
                    unhealthy.push(UnhealthyDevice { id: device.id.clone(), reason: reason.clone() })
                }
            }
        }
        OfferedResource { name, healthy, unhealthy }
    });
    let invalid = |finding: device_plugin::FileFinding| InvalidResource {
        file: finding.file.display().to_string(),
        what: finding.what,
    };
    Ok(ResourceFacts { offered: offered.collect(), invalid: findings.into_iter().map(invalid).collect() })
}
