//! The node's address pools: `/etc/silkrail/pools.d`, and their usage.

use std::{collections::BTreeMap, net::IpAddr, path::Path};

use ipam::PoolUsage;
use ipnetwork::IpNetwork;
use serde::Serialize;

use super::{links::LinkFacts, networks::NetworkFacts};
use crate::{Known, host_root::HostRoot};

const DIR: &str = "/etc/silkrail/pools.d";

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct PoolFacts {
    pub(crate) dir: &'static str,
    /// The number of pools in all valid files.
    pub(crate) count: usize,
    /// The subnets of the pools of the directory, by name.
    pub(crate) subnets: BTreeMap<String, IpNetwork>,
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
    /// Pools of which less than a tenth is free, with the number of free addresses.
    pub(crate) nearly_full: Vec<(String, u64)>,
    /// Pairs of pools with addresses in common, with the first of these ranges.
    pub(crate) overlapping: Vec<(String, String, String)>,
    /// Pools that assign an address which a link of this node has.
    pub(crate) of_node: Vec<PoolAddress>,
    /// The first IPv6 pool, if the kernel has no IPv6.
    pub(crate) without_ipv6: Option<String>,
    /// Documents that are not pools, with the reason.
    pub(crate) ignored: Vec<String>,
}

/// An address of a pool that a link of the node has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PoolAddress {
    pub(crate) pool: String,
    pub(crate) address: IpAddr,
    pub(crate) link: String,
}

impl PoolFacts {
    pub(crate) fn read(
        tree: &HostRoot,
        state_dir: &Path,
        links: &[LinkFacts],
        networks: &NetworkFacts,
    ) -> Self {
        let mut pools = Self { dir: DIR, ..Self::default() };
        pools.read_usage(tree, state_dir);
        let mut all = pools.read_directory(tree);
        pools.read_merged(&all);
        for (_, plugin) in networks.plugins().filter(|(_, plugin)| plugin.ours) {
            // Invalid ones are reported by the plugin.
            let inline = plugin.conf.ipam_value("pools");
            if let Some(Ok(found)) = inline.map(ipam::Pools::from_inline) {
                all = all.merge(found);
            }
        }
        pools.compare(tree, &all, links);
        pools
    }

    fn read_directory(&mut self, tree: &HostRoot) -> ipam::Pools {
        let pools = self;
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
        all
    }

    fn read_merged(&mut self, all: &ipam::Pools) {
        let pools = self;
        // A name that occurs in two files is only found in the merged pools.
        let contested = all.contested();
        pools.contested =
            contested.map(|skipped| (skipped.pool.to_string(), skipped.reason.to_string())).collect();
        for pool in all.iter() {
            pools.subnets.insert(pool.name.to_string(), pool.subnet);
            if pool.affinity.node_names.is_empty() && !pool.affinity.node && !pool.disabled {
                pools.of_any_node.push(pool.name.to_string());
            }
            if !pool.given.is_empty() {
                pools.shared.push((pool.name.to_string(), pool.given.len()));
            }
        }
    }

    /// Compares the pools with one another and with the node's own addresses.
    fn compare(&mut self, tree: &HostRoot, all: &ipam::Pools, links: &[LinkFacts]) {
        let used: Vec<&ipam::Pool> = all.iter().filter(|pool| !pool.disabled && !pool.terminating).collect();
        for (number, pool) in used.iter().enumerate() {
            for other in used[..number].iter().filter(|other| other.name != pool.name) {
                let ranges: Vec<_> = other.ranges.iter().collect();
                if let Some(common) = pool.ranges.within(&ranges).iter().next() {
                    let (first, second) = (other.name.to_string(), pool.name.to_string());
                    self.overlapping.push((first, second, common.to_string()));
                }
            }
            for link in links {
                let addresses = link.addresses.iter().flatten().map(|address| address.ip());
                let ours = addresses.filter(|address| pool.ranges.contains(*address));
                self.of_node.extend(ours.map(|address| PoolAddress {
                    pool: pool.name.to_string(),
                    address,
                    link: link.name.clone(),
                }));
            }
        }
        if !tree.is_there("proc/sys/net/ipv6") && tree.is_there("proc/sys/net") {
            let six = used.iter().find(|pool| pool.family() == ipam::IpFamily::V6);
            self.without_ipv6 = six.map(|pool| pool.name.to_string());
        }
    }

    /// Reads how many addresses are assigned. Only pools that the IPAM plugin has used since the boot have a usage.
    fn read_usage(&mut self, tree: &HostRoot, state_dir: &Path) {
        for PoolUsage { pool, addresses, claimed, .. } in usage(tree, state_dir) {
            let free = addresses.saturating_sub(claimed);
            if free == 0 {
                self.full.push((pool.to_string(), addresses));
            } else if free.saturating_mul(10) < addresses {
                self.nearly_full.push((pool.to_string(), free));
            }
        }
    }
}

fn usage(tree: &HostRoot, state_dir: &Path) -> Vec<PoolUsage> {
    let Known::Value(boot_id) = tree.text(bootid::FILE) else { return Vec::new() };
    let store = ipam::LocalStore::open_existing(&tree.path(state_dir), boot_id.trim());
    match store.and_then(|store| store.map_or(Ok(Vec::new()), |store| store.usage())) {
        Ok(usage) => usage,
        Err(error) => {
            tree.note_unexamined("the assigned addresses", error);
            Vec::new()
        }
    }
}

fn is_pool_file(name: &str) -> bool {
    !name.starts_with('.') && [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, third: u8, more: &Value) -> Value {
        let mut spec = json!({"subnet": format!("10.7.{third}.0/24"), "ips": [format!("10.7.{third}.5-10.7.{third}.9")]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name}, "spec": spec})
    }

    #[test]
    fn each_pool_of_each_file_is_examined() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("etc/silkrail/pools.d");
        std::fs::create_dir_all(&dir).unwrap();
        let mut given = pool("given", 3, &json!({"nodeName": ["gpu-01"]}));
        given["status"] = json!({"allocatedIPs": r#"{"10.7.3.7":{"pod":"x/y","podUid":"z"}}"#});
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
        let documents = |all: &[Value]| all.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
        for (name, text) in [
            ("0.yaml", "kind: SpiderIPPool\n".to_owned()),
            ("1.yml", documents(&[pool("any", 1, &json!({})), pool("off", 2, &json!({"disable": true}))])),
            ("2.json", given.to_string()),
            ("3.yaml", documents(&[config_map, pool("of-node", 4, &json!({"nodeName": ["gpu-01"]}))])),
            ("4.yaml", pool("twice", 5, &json!({"nodeName": ["gpu-01"]})).to_string()),
            ("5.yaml", pool("twice", 6, &json!({"nodeName": ["gpu-01"]})).to_string()),
            (".6.yaml", "[".to_owned()),
            ("7.txt", "[".to_owned()),
        ] {
            std::fs::write(dir.join(name), text).unwrap();
        }
        let links = [("eth0", "10.7.9.7/24"), ("eth1", "10.7.4.9/16")].map(|(name, address)| LinkFacts {
            name: name.into(),
            addresses: Some(vec![address.parse().unwrap()]),
            ..LinkFacts::default()
        });
        let tree = HostRoot::at(root.path());
        let facts = PoolFacts::read(&tree, Path::new("/run/silkrail"), &links, &NetworkFacts::default());
        let names = |all: &[(String, String)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&facts.broken), ["/etc/silkrail/pools.d/0.yaml"]);
        assert_eq!(names(&facts.contested), ["twice"]);
        assert_eq!(facts.of_any_node, ["any"]);
        assert_eq!(facts.shared, [("given".to_owned(), 1)]);
        assert_eq!(facts.subnets.keys().collect::<Vec<_>>(), ["any", "given", "of-node", "off", "twice"]);
        assert!(facts.ignored.len() == 1 && facts.ignored[0].contains("ConfigMap"), "{:?}", facts.ignored);
        let address = "10.7.4.9".parse().unwrap();
        assert_eq!(facts.of_node, [PoolAddress { pool: "of-node".into(), address, link: "eth1".into() }]);
    }
}
