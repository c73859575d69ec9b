//! The pod map: which pod has which device.

use std::path::Path;

use podmap::Entry;
use serde::Serialize;

use crate::host_root::HostRoot;

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct PodMapFacts {
    pub(crate) entries: Vec<Entry>,
    /// The errors of entries that are invalid.
    pub(crate) broken: Vec<String>,
}

impl PodMapFacts {
    pub(crate) fn read(tree: &HostRoot, state_dir: &Path) -> Self {
        let map = podmap::PodMap::below(&tree.path(state_dir));
        let mut pod_map = Self::default();
        match map.read_all() {
            Ok(all) => {
                for entry in all {
                    match entry {
                        Ok(entry) => pod_map.entries.push(entry),
                        Err(error) => pod_map.broken.push(error.to_string()),
                    }
                }
            }
            Err(error) => tree.note_unexamined("the pod map", error),
        }
        pod_map
    }
}
