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
    /// When it was booted, in seconds since 1970.
    pub(crate) booted: Option<u64>,
    pub(crate) hostname: Option<String>,
    /// Loaded modules, with the letters of `/proc/modules` that say where they come from: `O` is out of tree.
    pub(crate) modules: Known<BTreeMap<String, String>>,
    /// Names in `/sys/module`: also what is built in and has parameters.
    pub(crate) parts: Known<Vec<String>>,
    /// How it comes by `ib_core`.
    pub(crate) ib_core: Option<IbCoreLocation>,
    /// Whether the RDMA core is there now.
    pub(crate) has_rdma: Known<bool>,
    /// The version of a vendor's RDMA stack; the kernel's own has none.
    pub(crate) stack_version: Known<String>,
    /// `none [integrity] confidentiality`.
    pub(crate) lockdown: Known<String>,
    /// 1: enforcing.
    pub(crate) selinux: Known<u8>,
    pub(crate) iommu_groups: usize,
    pub(crate) numa_nodes: usize,
}

impl KernelFacts {
    pub(crate) fn read(tree: &HostRoot) -> Self {
        let release = tree.text("proc/sys/kernel/osrelease");
        let count = |dir: &str, prefix: &str| {
            tree.names(dir).items().iter().filter(|name| name.starts_with(prefix)).count()
        };
        Self {
            ib_core: release
                .get()
                .map(|release| modprobe::KernelModules::of(&tree.path(""), release).ib_core()),
            release,
            command_line: tree.text("proc/cmdline"),
            booted: tree.text("proc/stat").get().and_then(|text| booted(text)),
            hostname: tree.text("proc/sys/kernel/hostname").into_option(),
            modules: tree.text("proc/modules").map(|text| modules(&text)),
            parts: tree.names("sys/module"),
            has_rdma: has_rdma(tree),
            stack_version: tree.text("sys/module/ib_core/version"),
            lockdown: tree.text("sys/kernel/security/lockdown"),
            selinux: tree.value("sys/fs/selinux/enforce"),
            iommu_groups: count("sys/kernel/iommu_groups", ""),
            numa_nodes: count("sys/devices/system/node", "node"),
        }
    }

    /// Whether a module is there, loaded or built in; `None` if nobody can say.
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

/// `btime 1763664000`.
fn booted(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

fn has_rdma(tree: &HostRoot) -> Known<bool> {
    if !tree.is_there("sys/class") {
        tree.note_unexamined("/sys/class", "is not there: is sysfs mounted?");
        return Known::Unknown;
    }
    Known::Is(tree.is_there("sys/class/infiniband"))
}

/// A line is `mlx5_ib 475136 0 - Live 0x0000000000000000 (OE)`.
fn modules(text: &str) -> BTreeMap<String, String> {
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
    fn modules_out_of_the_tree_are_told_from_the_kernels() {
        let text = "ib_core 1 2 mlx5_ib, Live 0x0 (OE)\nloop 40960 0 - Live 0x0000000000000000\n";
        let modules = modules(text);
        assert_eq!((modules["ib_core"].as_str(), modules["loop"].as_str()), ("OE", ""));
    }
}
