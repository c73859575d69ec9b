//! The memory of the node: what is free, how fragmented it is, and its huge pages.

use std::path::Path;

use super::directory;

const OF_NODE: [&str; 6] = [
    "proc/meminfo",
    "proc/buddyinfo",
    "proc/sys/vm/min_free_kbytes",
    "proc/sys/vm/overcommit_memory",
    "proc/sys/vm/zone_reclaim_mode",
    "sys/kernel/mm/transparent_hugepage/enabled",
];
const OF_HUGE_PAGES: [&str; 4] = ["nr_hugepages", "free_hugepages", "resv_hugepages", "surplus_hugepages"];
const HUGE_PAGES: &str = "sys/kernel/mm/hugepages";
const NUMA_NODES: &str = "sys/devices/system/node";

/// Returns the files, of the node as a whole and of each NUMA node.
pub(super) fn files(root: &Path) -> Vec<String> {
    let mut files = OF_NODE.map(str::to_owned).to_vec();
    let mut of_huge_pages = |dir: &str| {
        for size in directory::names(root, dir) {
            files.extend(OF_HUGE_PAGES.map(|name| format!("{dir}/{size}/{name}")));
        }
    };
    of_huge_pages(HUGE_PAGES);
    let nodes = directory::names(root, NUMA_NODES).into_iter().filter(|name| is_numa_node(name));
    let nodes: Vec<_> = nodes.map(|name| format!("{NUMA_NODES}/{name}")).collect();
    nodes.iter().for_each(|node| of_huge_pages(&format!("{node}/hugepages")));
    files.extend(
        nodes.iter().flat_map(|node| ["meminfo", "cpulist", "distance"].map(|name| format!("{node}/{name}"))),
    );
    files
}

fn is_numa_node(name: &str) -> bool {
    name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok())
}
