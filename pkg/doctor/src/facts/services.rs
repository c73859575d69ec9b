//! The services of Silkrail under systemd, and whether its daemon runs.

use serde::Serialize;

use crate::host_root::HostRoot;

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceFacts {
    /// Whether systemd manages the node.
    pub(crate) systemd: bool,
    /// Whether `silkrail-node.service` runs at the next boot.
    pub(crate) node_enabled: bool,
    /// Whether `silkraild.service` runs at the next boot.
    pub(crate) silkraild_enabled: bool,
    /// Whether a process `silkraild` runs.
    pub(crate) silkraild_runs: bool,
}

/// The directory of an administrator's units, in which `systemctl enable` creates symbolic links.
const UNITS: &str = "etc/systemd/system";

impl ServiceFacts {
    pub(crate) fn read(tree: &HostRoot) -> Self {
        let targets = tree.names(UNITS);
        let is_enabled = |unit: &str| {
            let wants =
                targets.items().iter().filter(|name| name.ends_with(".wants") || name.ends_with(".requires"));
            wants.into_iter().any(|target| {
                std::fs::symlink_metadata(tree.path(format!("{UNITS}/{target}/{unit}"))).is_ok()
            })
        };
        Self {
            systemd: tree.is_there("run/systemd/system"),
            node_enabled: is_enabled("silkrail-node.service"),
            silkraild_enabled: is_enabled("silkraild.service"),
            silkraild_runs: runs(tree, "silkraild"),
        }
    }
}

fn runs(tree: &HostRoot, program: &str) -> bool {
    let names = tree.names("proc");
    let mut processes = names.items().iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    processes.any(|pid| {
        let comm = std::fs::read_to_string(tree.path(format!("proc/{pid}/comm")));
        comm.is_ok_and(|comm| comm.trim_end() == program)
    })
}
