//! The directory from which plugins read the pools of the cluster.

use std::{
    collections::BTreeSet,
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use ipam::{BlockSize, IpRange, IpRanges, Pool, Pools};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    api::DynamicObject,
    core::{Selector, SelectorExt},
};
use serde_json::{Value, json};

use crate::{node_object::NodeLabels, pool_selectors::PoolSelectors};

/// The annotation of a pool with the number of addresses of its blocks.
pub(crate) const BLOCK_SIZE: &str = "ipam.silkrail.io/block-size";

/// The file of the pools.
const POOLS: &str = "pools.json";
/// The node of pools that do not select this one. It is part of error messages only.
const NO_NODE: &str = "other nodes only";

/// Without the annotation, blocks are as large as possible, but a pool that is not small has at least this number of them.
const BLOCKS_PER_POOL: u128 = 256;
const SMALLEST: u64 = 4;
const LARGEST: u64 = 64;

/// A pool that plugins can use.
#[derive(Debug, Clone)]
pub(crate) struct ClusterPool {
    /// The pool, without reserved addresses.
    pub(crate) pool: Pool,
    /// Its addresses before those were removed that are reserved for certain pods.
    pub(crate) before_reservations: IpRanges,
    /// The size of the blocks that are leased for it.
    pub(crate) block_size: BlockSize,
}

/// What plugins are to read.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolFiles {
    /// The content of each file, in the order in which they are written.
    files: Vec<(String, String)>,
    /// The pools of the files.
    pub(crate) pools: Vec<ClusterPool>,
    /// Their label selectors.
    pub(crate) selectors: PoolSelectors,
    /// The pools that cannot be used.
    pub(crate) invalid: Vec<InvalidPool>,
    /// Whether a reservation is invalid, so that no pool is used.
    pub(crate) is_blocked: bool,
}

/// A pool that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidPool {
    /// The name of the object.
    pub(crate) name: String,
    /// Why it cannot be used.
    pub(crate) problem: String,
}

impl PoolFiles {
    /// Returns the files for a node.
    pub(crate) fn of<'a>(
        pools: impl IntoIterator<Item = &'a DynamicObject>,
        reserved: impl IntoIterator<Item = &'a DynamicObject>,
        reserved_for_pods: &BTreeSet<IpAddr>,
        node_name: &str,
        labels: &NodeLabels,
    ) -> Self {
        let mut found = Self::default();
        let reserved: Vec<_> =
            reserved.into_iter().map(|object| document(object, "SpiderReservedIP")).collect();
        let reservations = list(&reserved);
        // Without its reservations, no pool must be used: plugins refuse all pools if this file is invalid.
        found.files.push(("reserved.json".to_owned(), reservations.to_string()));
        let parsed = Pools::from_text(&reservations.to_string(), Path::new(POOLS));
        found.is_blocked = parsed.is_err();
        let of_pods: Vec<_> = reserved_for_pods.iter().map(|address| IpRange::from(*address)).collect();
        found.files.push(("ipreservations.json".to_owned(), reservations_of_pods(&of_pods).to_string()));
        let mut valid = Vec::new();
        for object in pools {
            let pool = for_node(document(object, "SpiderIPPool"), node_name, labels);
            match parse(&pool, &reservations) {
                Ok(parsed) => {
                    found.selectors.add(object);
                    found.pools.extend(parsed.iter().map(|pool| ClusterPool {
                        pool: Pool { ranges: pool.ranges.without(&of_pods), ..pool.clone() },
                        before_reservations: pool.ranges.clone(),
                        block_size: block_size(object, pool),
                    }));
                    valid.push(pool);
                }
                Err(error) => {
                    let name = object.metadata.name.clone().unwrap_or_default();
                    found.invalid.push(InvalidPool { name, problem: error.to_string() });
                    // Plugins report it if a network names the pool.
                    found.files.push((format!("invalid-{}.json", found.invalid.len()), pool.to_string()));
                }
            }
        }
        // Last: plugins begin when it exists.
        found.files.push((POOLS.to_owned(), list(&valid).to_string()));
        found
    }

    /// Returns the pool with that name.
    pub(crate) fn get(&self, name: &str) -> Option<&ClusterPool> {
        self.pools.iter().find(|pool| pool.pool.name.as_str() == name)
    }

    /// Makes the directory have these files only. Each is replaced atomically.
    ///
    /// # Errors
    /// With the path.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), statefile::Error> {
        statefile::make_dir(directory, 0o700)?;
        for (name, content) in &self.files {
            let path = directory.join(name);
            if fs::read(&path).is_ok_and(|current| current == content.as_bytes()) {
                continue;
            }
            statefile::replace(&path, 0o600, content.as_bytes())?;
        }
        let failed = |path: PathBuf| move |source| statefile::Error::Io { operation: "list", path, source };
        let entries = fs::read_dir(directory).map_err(failed(directory.to_owned()))?;
        for entry in entries.filter_map(io::Result::ok) {
            let is_ours = entry
                .file_name()
                .to_str()
                .is_some_and(|name| self.files.iter().any(|(ours, _)| ours == name));
            if !is_ours {
                statefile::remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Returns the part of an object that plugins read.
fn document(object: &DynamicObject, kind: &str) -> Value {
    let mut metadata = json!({"name": object.metadata.name});
    if let Some(time) = &object.metadata.deletion_timestamp {
        metadata["deletionTimestamp"] = json!(time);
    }
    let mut document = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": kind,
        "metadata": metadata,
        "spec": object.data["spec"],
    });
    // The allocations of Spiderpool itself, which are excluded.
    if let Some(allocated) = object.data.pointer("/status/allocatedIPs").filter(|value| !value.is_null()) {
        document["status"] = json!({"allocatedIPs": allocated});
    }
    document
}

impl ClusterPool {
    /// Whether addresses of it are assigned.
    pub(crate) fn is_in_use(&self) -> bool {
        !self.pool.disabled && !self.pool.terminating
    }
}

fn parse(pool: &Value, reservations: &Value) -> Result<Pools, ipam::PoolReadError> {
    Pools::from_text(&list(&[pool.clone(), reservations.clone()]).to_string(), Path::new("cluster.json"))
}

/// Returns a reservation of the addresses that only certain pods get.
fn reservations_of_pods(addresses: &[IpRange]) -> Value {
    let ips: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderReservedIP", "metadata": {"name": "ipreservations"},
        "spec": {"ips": ips},
    })
}

/// Replaces the selection of nodes, which plugins may know by another name, by none if this node is selected.
fn for_node(mut pool: Value, node_name: &str, labels: &NodeLabels) -> Value {
    let spec = &mut pool["spec"];
    let names: Vec<_> = spec["nodeName"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let selector = serde_json::from_value::<LabelSelector>(spec["nodeAffinity"].clone()).ok();
    let is_selected = match (names.as_slice(), selector.map(Selector::try_from)) {
        ([], None) => true,
        ([], Some(Ok(selector))) => selector.matches(labels),
        ([], Some(Err(_))) => false,
        (names, _) => names.contains(&node_name),
    };
    spec["nodeName"] = if is_selected { Value::Null } else { json!([NO_NODE]) };
    spec["nodeAffinity"] = Value::Null;
    pool
}

fn list(items: &[Value]) -> Value {
    let flat: Vec<_> = items
        .iter()
        .flat_map(|item| item["items"].as_array().cloned().unwrap_or_else(|| vec![item.clone()]))
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": flat})
}

/// Returns the size of the blocks of a pool: what its annotation says, or else a size that leaves enough blocks for many nodes.
fn block_size(object: &DynamicObject, pool: &Pool) -> BlockSize {
    if let Some(text) = object.metadata.annotations.as_ref().and_then(|all| all.get(BLOCK_SIZE)) {
        match text.parse() {
            Ok(size) => return size,
            Err(error) => {
                tracing::warn!("IPPool {}: annotation {BLOCK_SIZE}: {error}; it is ignored", pool.name)
            }
        }
    }
    let most = u64::try_from(pool.ranges.len() / BLOCKS_PER_POOL).unwrap_or(LARGEST).clamp(SMALLEST, LARGEST);
    let size = 1 << most.ilog2();
    BlockSize::try_from(size).unwrap_or(BlockSize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, spec: Value) -> DynamicObject {
        serde_json::from_value(
            json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": name}, "spec": spec}),
        )
        .unwrap()
    }

    fn files(pools: &[DynamicObject], reserved: &[DynamicObject]) -> PoolFiles {
        let labels = NodeLabels::from([("zone".to_owned(), "a".to_owned())]);
        PoolFiles::of(pools, reserved, &BTreeSet::new(), "gpu-07", &labels)
    }

    #[test]
    fn plugins_read_pools_without_reserved_addresses() {
        let pools = [
            object("good", json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]})),
            object("bad", json!({"subnet": "10.1.0.0/24", "ips": ["10.2.0.1"]})),
        ];
        let reserved = [object("r", json!({"ips": ["10.0.0.2-10.0.0.3"]}))];
        let files = files(&pools, &reserved);
        assert_eq!(files.pools.len(), 1);
        assert_eq!(files.pools[0].pool.ranges.len(), 7);
        assert!(files.invalid[0].problem.contains("10.2.0.1"), "{:?}", files.invalid);
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("earlier.json"), "{}").unwrap();
        files.write(directory.path()).unwrap();
        let read = Pools::read_dir(directory.path()).unwrap();
        assert_eq!(read.iter().map(|pool| pool.name.to_string()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(read.get("good").unwrap().ranges.len(), 7);
        assert!(read.unusable().contains("10.2.0.1"), "{}", read.unusable());
        assert!(!directory.path().join("earlier.json").exists());
    }

    #[test]
    fn addresses_that_are_reserved_for_pods_are_in_no_pool() {
        let pools = [object("good", json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]}))];
        let of_pods = BTreeSet::from(["10.0.0.3".parse().unwrap(), "fd00::3".parse().unwrap()]);
        let files = PoolFiles::of(&pools, &[], &of_pods, "gpu-07", &NodeLabels::new());
        let pool = files.get("good").unwrap();
        assert_eq!((pool.pool.ranges.len(), pool.before_reservations.len()), (8, 9));
        let directory = tempfile::tempdir().unwrap();
        files.write(directory.path()).unwrap();
        assert_eq!(Pools::read_dir(directory.path()).unwrap().get("good").unwrap().ranges.len(), 8);
    }

    #[test]
    fn all_reservations_and_the_addresses_of_spiderpool_are_excluded() {
        let ips = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]});
        let mut spiderpools = object("one", ips.clone());
        spiderpools.data["status"] = json!({"allocatedIPs": "{\"10.0.0.1\":{\"pod\":\"ai/web-0\"}}"});
        let mut ending = object("ending", ips.clone());
        ending.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let mut off = object("off", ips);
        off.data["spec"]["disable"] = json!(true);
        let reserved = [
            object("r", json!({"ips": ["10.0.0.2"]})),
            object("s", json!({"ips": ["10.0.0.3", "10.0.0.9"]})),
        ];
        let bad = |name: &str| object(name, json!({"subnet": "10.1.0.0/24", "ips": ["10.2.0.1"]}));
        let files = files(&[bad("bad"), spiderpools, ending, bad("worse"), off], &reserved);
        let found: Vec<_> = files
            .pools
            .iter()
            .map(|pool| (pool.pool.name.as_str(), pool.pool.ranges.len(), pool.is_in_use()))
            .collect();
        assert_eq!(found, [("one", 5, true), ("ending", 6, false), ("off", 6, false)]);
        let names: Vec<_> = files.invalid.iter().map(|invalid| invalid.name.as_str()).collect();
        assert!(names == ["bad", "worse"] && !files.is_blocked);
        let directory = tempfile::tempdir().unwrap();
        files.write(directory.path()).unwrap();
        let read = Pools::read_dir(directory.path()).unwrap();
        assert_eq!((read.len(), read.remarks().unusable().len()), (3, 2));
        assert!(read.get("ending").unwrap().terminating && read.get("one").unwrap().ranges.len() == 5);
    }

    #[test]
    fn an_invalid_reservation_makes_all_pools_unusable() {
        let pools = [object("good", json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]}))];
        let reserved = [object("r", json!({"ips": ["10.0.0.2-x"]}))];
        let files = files(&pools, &reserved);
        assert!(files.pools.is_empty() && files.is_blocked);
        let directory = tempfile::tempdir().unwrap();
        files.write(directory.path()).unwrap();
        assert!(matches!(Pools::read_dir(directory.path()), Err(ipam::PoolReadError::Reservation(_))));
    }

    #[test]
    fn labels_of_the_node_are_compared() {
        let spec =
            |zone: &str| json!({"subnet": "10.0.0.0/24", "nodeAffinity": {"matchLabels": {"zone": zone}}});
        for (zone, names) in [("a", &[][..]), ("b", &[NO_NODE])] {
            let files = files(&[object("p", spec(zone))], &[]);
            assert_eq!(files.pools[0].pool.affinity.node_names, names);
            assert!(!files.pools[0].pool.affinity.node);
        }
        let wrong = json!({"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]});
        let invalid = files(&[object("p", json!({"subnet": "10.0.0.0/24", "nodeAffinity": wrong}))], &[]);
        assert_eq!(invalid.pools[0].pool.affinity.node_names, [NO_NODE], "it selects no node");
        for (listed, names) in [("gpu-07", &[][..]), ("gpu-08", &[NO_NODE])] {
            let spec = json!({"subnet": "10.0.0.0/24", "nodeName": ["gpu-06", listed], "nodeAffinity": {"matchLabels": {"zone": "b"}}});
            assert_eq!(files(&[object("p", spec)], &[]).pools[0].pool.affinity.node_names, names, "{listed}");
        }
    }

    #[test]
    fn the_size_of_blocks_depends_on_the_pool() {
        let size = |ips: &str, annotations: Value| {
            let mut pool = object("p", json!({"subnet": "10.0.0.0/8", "ips": [ips]}));
            pool.metadata.annotations = serde_json::from_value(annotations).unwrap();
            files(&[pool], &[]).pools[0].block_size.addresses()
        };
        for (ips, expected) in [
            ("10.0.0.1-10.0.0.250", 4),
            ("10.0.0.1", 4),
            ("10.0.0.0-10.0.7.255", 8),
            ("10.0.0.0-10.0.15.254", 8),
            ("10.0.0.0-10.0.15.255", 16),
            ("10.0.0.0-10.255.255.255", 64),
        ] {
            assert_eq!(size(ips, Value::Null), expected, "{ips}");
        }
        assert_eq!(size("10.0.0.1-10.0.0.250", json!({BLOCK_SIZE: "32"})), 32);
        assert_eq!(size("10.0.0.1-10.0.0.250", json!({BLOCK_SIZE: "33"})), 4);
    }
}
