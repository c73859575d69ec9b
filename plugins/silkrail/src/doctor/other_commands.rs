//! Input of the doctor that other commands provide: stale resources (`gc`) and the node file (`apply`).

use std::{fs, io, path::Path};

use ::doctor::{DesiredState, DesiredVfs, StaleResource};
use inventory::{Inventory, NodePaths};
use provision::NodeFile;
use state::StateDir;

use crate::gc;

const NODE_FILE: &str = "/etc/silkrail/node.yaml";

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

fn below(root: &Path, path: &Path) -> std::path::PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
