//! The kernel: its release, command line, modules and restrictions.

use std::collections::BTreeMap;

use modprobe::IbCoreLocation;
use serde::Serialize;

use crate::{Known, host_root::HostRoot};

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KernelFacts {
    pub(crate) release: Known<String>,
    pub(crate) command_line: Known<String>,
    /// The time of the boot, in seconds since 1970.
    pub(crate) booted: Option<u64>,
    pub(crate) hostname: Option<String>,
    /// Loaded modules, with their taint flags from `/proc/modules`: `O` is an out-of-tree module.
    pub(crate) modules: Known<BTreeMap<String, String>>,
    /// Names in `/sys/module`, which also contains built-in modules that have parameters.
    pub(crate) parts: Known<Vec<String>>,
    /// Whether `ib_core` is a module or built in.
    pub(crate) ib_core: Option<IbCoreLocation>,
    /// Whether the RDMA core is loaded: `/sys/class/infiniband` exists.
    pub(crate) has_rdma: Known<bool>,
    /// The version of a vendor's RDMA stack; absent for the one in the kernel tree.
    pub(crate) stack_version: Known<String>,
    /// `/sys/kernel/security/lockdown`: `none [integrity] confidentiality`.
    pub(crate) lockdown: Known<String>,
    /// `/sys/fs/selinux/enforce`: 1 if SELinux is enforcing.
    pub(crate) selinux: Known<u8>,
    /// Modules that plugins need and that the kernel has neither as a module nor built in.
    pub(crate) missing_modules: Vec<&'static str>,
    pub(crate) iommu_groups: usize,
    pub(crate) numa_nodes: usize,
}

/// The modules of links that plugins create.
const LINK_MODULES: [&str; 5] = ["macvlan", "ipvlan", "ib_ipoib", "bonding", "8021q"];

impl KernelFacts {
    pub(crate) fn read(tree: &HostRoot) -> Self {
        let release = tree.text("proc/sys/kernel/osrelease");
        let count = |dir: &str, prefix: &str| {
            tree.names(dir).items().iter().filter(|name| name.starts_with(prefix)).count()
        };
        let modules = release.get().map(|release| modprobe::KernelModules::of(&tree.path(""), release));
        let is_missing =
            |name: &&str| modules.as_ref().is_some_and(|modules| modules.has(name) == Some(false));
        Self {
            missing_modules: LINK_MODULES.into_iter().filter(is_missing).collect(),
            ib_core: modules.as_ref().map(modprobe::KernelModules::ib_core),
            release,
            command_line: tree.text("proc/cmdline"),
            booted: tree.text("proc/stat").get().and_then(|text| booted(text)),
            hostname: tree.text("proc/sys/kernel/hostname").into_option(),
            modules: tree.text("proc/modules").map(|text| loaded_modules(&text)),
            parts: tree.names("sys/module"),
            has_rdma: has_rdma(tree),
            stack_version: tree.text("sys/module/ib_core/version"),
            lockdown: tree.text("sys/kernel/security/lockdown"),
            selinux: tree.value("sys/fs/selinux/enforce"),
            iommu_groups: count("sys/kernel/iommu_groups", ""),
            numa_nodes: count("sys/devices/system/node", "node"),
        }
    }

    /// Returns whether a module is loaded or built in; `None` if that is unknown.
    pub(crate) fn has_module(&self, name: &str) -> Option<bool> {
        let loaded = self.modules.get().map(|modules| modules.contains_key(name));
        let part = self.parts.get().map(|parts| parts.iter().any(|part| part == name));
        match (loaded, part) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (None, _) => None,
            (Some(false), _) => Some(false),
        }
    }
}

/// Returns the time of the boot from the line `btime 1763664000` of `/proc/stat`.
fn booted(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

fn has_rdma(tree: &HostRoot) -> Known<bool> {
    if !tree.is_there("sys/class") {
        tree.note_unexamined("/sys/class", "does not exist: is sysfs mounted?");
        return Known::Unknown;
    }
    Known::Value(tree.is_there("sys/class/infiniband"))
}

/// Parses `/proc/modules`, whose lines have the form `mlx5_ib 475136 0 - Live 0x0000000000000000 (OE)`.
fn loaded_modules(text: &str) -> BTreeMap<String, String> {
    let module = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?.to_owned();
        let taint = words.last().filter(|word| word.starts_with('(')).unwrap_or_default();
        Some((name, taint.trim_matches(['(', ')']).to_owned()))
    };
    text.lines().filter_map(module).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_tree_modules_have_a_taint_flag() {
        let text = "ib_core 1 2 mlx5_ib, Live 0x0 (OE)\nloop 40960 0 - Live 0x0000000000000000\n";
        let modules = loaded_modules(text);
        assert_eq!((modules["ib_core"].as_str(), modules["loop"].as_str()), ("OE", ""));
    }
}
