//! A process that has a network namespace with an RDMA device, and does not belong to a pod.

use kubepods::Processes;
use serde::Serialize;

/// A process outside of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessInfo {
    /// The command name, as in `ps -o comm`.
    pub command: String,
    /// Its cgroup, such as `/system.slice/slurmstepd.scope/job_17/step_0`.
    pub cgroup: String,
}

impl ProcessInfo {
    /// Reads the names; `None` if the process has ended.
    pub(crate) fn of(processes: &Processes, pid: u32) -> Option<Self> {
        let cgroup = kubepods::cgroup_path(&processes.cgroup(pid).ok()??)?.to_owned();
        Some(Self { command: processes.command(pid)?, cgroup })
    }
}
