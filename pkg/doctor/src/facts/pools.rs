//! The node's address pools: `/etc/silkrail/pools.d`, and their usage.

use std::path::Path;

use serde::Serialize;

use crate::{Known, host_root::HostRoot};

const DIR: &str = "/etc/silkrail/pools.d";

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct PoolFacts {
    pub(crate) dir: &'static str,
    /// The number of pools in all valid files.
    pub(crate) count: usize,
    /// Invalid files, with the error.
    pub(crate) broken: Vec<(String, String)>,
    /// Names that two pools have, with the places of both.
    pub(crate) contested: Vec<(String, String)>,
    /// Pools without a node: every node that has the file assigns their addresses.
    pub(crate) of_any_node: Vec<String>,
    /// Pools without a free address on this node, with their size.
    pub(crate) full: Vec<(String, u64)>,
    /// Pools from which Spiderpool assigned addresses before the export, with the number of these addresses.
    pub(crate) shared: Vec<(String, usize)>,
    /// Documents that are not pools, with the reason.
    pub(crate) ignored: Vec<String>,
}

impl PoolFacts {
    pub(crate) fn read(tree: &HostRoot, state_dir: &Path) -> Self {
        let mut pools = Self { dir: DIR, full: full(tree, state_dir), ..Self::default() };
        let names = tree.names(DIR).into_option().unwrap_or_default();
        let mut all = ipam::Pools::default();
        for name in names.iter().filter(|name| is_pool_file(name)) {
            let path = format!("{DIR}/{name}");
            let Known::Value(text) = tree.text(&path) else { continue };
            let found = match ipam::Pools::from_text(&text, path.as_ref()) {
                Ok(found) => found,
                Err(error) => {
                    pools.broken.push((path, error.to_string()));
                    continue;
                }
            };
            pools.count += found.len();
            let ignored = found.ignored().iter();
            pools.ignored.extend(ignored.map(|ignored| format!("{}: {}", ignored.origin, ignored.reason)));
            all = all.merge(found);
        }
        // A name that occurs in two files is only found in the merged pools.
        let contested = all.contested();
        pools.contested =
            contested.map(|skipped| (skipped.pool.to_string(), skipped.reason.to_string())).collect();
        for pool in all.iter() {
            if pool.affinity.node_names.is_empty() && !pool.affinity.node && !pool.disabled {
                pools.of_any_node.push(pool.name.to_string());
            }
            if !pool.given.is_empty() {
                pools.shared.push((pool.name.to_string(), pool.given.len()));
            }
        }
        pools
    }
}

/// Returns the pools without a free address. Only pools that the IPAM plugin has used since the boot are checked.
fn full(tree: &HostRoot, state_dir: &Path) -> Vec<(String, u64)> {
    let Known::Value(boot_id) = tree.text(bootid::FILE) else { return Vec::new() };
    let store = ipam::LocalStore::open_existing(&tree.path(state_dir), boot_id.trim());
    match store.and_then(|store| store.map_or(Ok(Vec::new()), |store| store.usage())) {
        Ok(usage) => {
            let full = usage.into_iter().filter(|usage| usage.claimed >= usage.addresses);
            full.map(|usage| (usage.pool.to_string(), usage.addresses)).collect()
        }
        Err(error) => {
            tree.note_unexamined("the assigned addresses", error);
            Vec::new()
        }
    }
}

fn is_pool_file(name: &str) -> bool {
    !name.starts_with('.') && [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end))
}
