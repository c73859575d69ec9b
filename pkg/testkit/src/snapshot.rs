//! Snapshots of a node, for comparison.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::{Observe, netns_view::Inside};

/// Keys of the tools' output that change over time, or that differ for every new link.
const VOLATILE: [&str; 14] = [
    "ifindex",
    "link_index",
    "link_netnsid",
    "stats",
    "stats64",
    "valid_life_time",
    "preferred_life_time",
    "expires",
    // The timers of a bridge, and how many addresses it has learnt.
    "fdb_n_learned",
    "gc_timer",
    "hello_timer",
    "hold_timer",
    "forward_delay_timer",
    "message_age_timer",
];

/// The settings of links, and those that apply to all. Some cannot be read.
const SYSCTLS: &str = "cd /proc/sys/net && grep -s '' -r ipv4/conf ipv6/conf || true";

/// Links, addresses, routes, rules, sysctls and RDMA devices of a node and its pods, and the files of the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    facts: BTreeMap<String, String>,
}

impl Snapshot {
    /// Takes a snapshot of a node, whose network namespace is `node`, with the namespaces in a directory and the files of a
    /// state directory.
    pub(crate) fn of(node: &impl Observe, netns_dir: &Path, state_dir: &Path) -> Self {
        let mut snapshot = Self { facts: BTreeMap::new() };
        snapshot.add_netns("node", node);
        for (name, path) in entries(netns_dir) {
            snapshot.add_netns(&format!("pod {name}"), &Inside(&path));
        }
        snapshot.add_sysfs();
        snapshot.list(state_dir, "state");
        snapshot
    }

    /// Adds the facts of `/sys` that the tools do not show: the names of the devices, the first GIDs of their tables, and
    /// the RDMA device of each character device.
    fn add_sysfs(&mut self) {
        for class in ["net", "infiniband", "infiniband_verbs", "infiniband_mad"] {
            for (name, path) in entries(&Path::new("/sys/class").join(class)) {
                let ibdev = fs::read_to_string(path.join("ibdev")).unwrap_or_default();
                let fact = format!("{}{}", ibdev.trim(), gids(&path).join(" "));
                self.facts.insert(format!("sysfs: {class} {name}"), fact);
            }
        }
    }

    fn add_netns(&mut self, place: &str, netns: &impl Observe) {
        let mut facts = Vec::new();
        let kinds = ["link", "addresses of", "route", "rule"];
        let shown = netns.ip_batch(&["link show", "address show", "route show table all", "rule show"]);
        for (kind, shown) in kinds.into_iter().zip(shown) {
            facts.extend(shown.into_iter().map(|fact| (kind, fact)));
        }
        let shown = netns.ip6_batch(&["route show table all", "rule show"]);
        for (kind, shown) in ["route6", "rule6"].into_iter().zip(shown) {
            facts.extend(shown.into_iter().map(|fact| (kind, fact)));
        }
        if Path::new("/sys/class/infiniband").exists() {
            facts.extend(netns.rdma("dev show").into_iter().map(|dev| ("rdma", dev)));
        }
        for (kind, mut fact) in facts {
            remove_volatile(&mut fact);
            let keys = ["ifname", "src", "dst", "dev", "table", "gateway"];
            let known: Vec<_> = keys.into_iter().filter_map(|key| fact[key].as_str()).collect();
            // Two routes may have all of these in common.
            let same = self.facts.entry(format!("{place}: {kind} {}", known.join(" "))).or_default();
            same.push_str(&fact.to_string());
        }
        for line in netns.run("sh", &["-c", SYSCTLS]).lines() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            self.facts.insert(format!("{place}: sysctl {name}"), value.to_owned());
        }
    }

    /// Adds the files below a directory with their content, except address maps, which are derived from the claims, and the
    /// record of `silkrail gc`, which describes its runs.
    fn list(&mut self, dir: &Path, name: &str) {
        for (entry, path) in entries(dir).into_iter().filter(|(entry, _)| entry != "gc.json") {
            let name = format!("{name}/{entry}");
            if path.is_dir() && !path.is_symlink() {
                if entry != "maps" {
                    self.list(&path, &name);
                }
                continue;
            }
            let content = fs::read_link(&path).map(|to| format!("-> {}", to.display()));
            // Reading a pipe would block.
            let read = |path: &Path| if path.is_file() { fs::read(path) } else { Ok(b"not a file".to_vec()) };
            let content = content.or_else(|_| read(&path).map(|b| String::from_utf8_lossy(&b).into_owned()));
            self.facts.insert(name, content.unwrap_or_else(|e| e.to_string()));
        }
    }

    /// Returns the paths of the files in the state directory, relative to it.
    pub fn state(&self) -> Vec<&str> {
        self.facts.keys().filter_map(|key| key.strip_prefix("state/")).collect()
    }

    /// Returns the addresses that are claimed.
    pub fn claims(&self) -> Vec<&str> {
        self.state().into_iter().filter_map(|path| path.split_once("/claims/").map(|(_, ip)| ip)).collect()
    }

    /// Asserts that the snapshot equals an earlier one.
    ///
    /// # Panics
    /// If anything differs; the message lists the differences.
    pub fn assert_is(&self, before: &Self) {
        let difference = self.difference(before);
        assert!(difference.is_empty(), "the node is not as before:\n{difference}");
    }

    /// Returns the facts that are new (`+`) or gone (`-`) since an earlier snapshot, one per line.
    pub fn difference(&self, before: &Self) -> String {
        let mut text = String::new();
        for (sign, these, others) in [('-', before, self), ('+', self, before)] {
            for (key, value) in
                these.facts.iter().filter(|(key, value)| others.facts.get(*key) != Some(value))
            {
                let _ = writeln!(text, "{sign} {key}: {value}");
            }
        }
        text
    }
}

/// Returns the GIDs of a device, sorted: their order depends on which entries were free.
fn gids(device: &Path) -> Vec<String> {
    let table = device.join("ports/1/gids");
    let mut gids: Vec<_> = (0..24)
        .filter_map(|index| fs::read_to_string(table.join(index.to_string())).ok())
        .map(|gid| gid.trim().to_owned())
        .filter(|gid| gid.bytes().any(|b| b != b'0' && b != b':'))
        .collect();
    gids.sort();
    gids
}

fn remove_volatile(fact: &mut Value) {
    if let Value::Object(object) = fact {
        if object.get("link_type").is_some_and(|kind| kind == "infiniband") {
            remove_queue_pair(object);
        }
        object.retain(|key, _| !VOLATILE.contains(&key.as_str()));
        object.values_mut().for_each(remove_volatile);
    } else if let Value::Array(list) = fact {
        list.iter_mut().for_each(remove_volatile);
    }
}

/// Removes the number of the queue pair from the address of an IPoIB link: its first four bytes. The kernel creates another
/// queue pair whenever it creates the link, as it does when the RDMA device moves.
fn remove_queue_pair(link: &mut Map<String, Value>) {
    if let Some(Value::String(address)) = link.get_mut("address") {
        *address = address.split(':').skip(4).collect::<Vec<_>>().join(":");
    }
}

fn entries(dir: &Path) -> Vec<(String, PathBuf)> {
    let listed: io::Result<Vec<_>> = fs::read_dir(dir).and_then(Iterator::collect);
    let mut entries: Vec<_> = listed
        .unwrap_or_default()
        .iter()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect();
    entries.sort();
    entries
}
