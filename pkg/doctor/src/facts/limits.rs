//! The limit of locked memory (`RLIMIT_MEMLOCK`) of the container runtime, which pods inherit, and of this process.

use serde::Serialize;

use crate::host_root::HostRoot;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemlockLimit {
    pub(crate) pid: Option<u32>,
    pub(crate) command: String,
    /// The soft limit in bytes; `None` if it is unlimited.
    pub(crate) bytes: Option<u64>,
}

/// Programs from which containers inherit their limits.
const RUNTIMES: [&str; 6] = ["containerd", "crio", "dockerd", "k3s-server", "k3s-agent", "rke2"];

/// Returns the limits of the container runtimes, or the limit of this process if no runtime is running.
pub(crate) fn read(tree: &HostRoot) -> Vec<MemlockLimit> {
    let names = tree.names("proc");
    let pids = names.items().iter().filter_map(|name| name.parse::<u32>().ok());
    let found: Vec<MemlockLimit> = pids.filter_map(|pid| runtime(tree, pid)).collect();
    if !found.is_empty() {
        return found;
    }
    let own = tree.text("proc/self/limits").into_option().and_then(|text| locked(&text));
    own.map(|bytes| MemlockLimit { pid: None, command: "this process".into(), bytes }).into_iter().collect()
}

fn runtime(tree: &HostRoot, pid: u32) -> Option<MemlockLimit> {
    let dir = tree.path(format!("proc/{pid}"));
    // A process that has exited in the meantime is not reported as unexamined.
    let read = |name: &str| std::fs::read_to_string(dir.join(name));
    let command = read("comm").ok()?.trim_end().to_owned();
    if !RUNTIMES.contains(&command.as_str()) {
        return None;
    }
    match read("limits") {
        Ok(text) => Some(MemlockLimit { pid: Some(pid), bytes: locked(&text)?, command }),
        Err(error) => {
            tree.note_unexamined(format!("limits of {command} (pid {pid})"), error);
            None
        }
    }
}

/// Returns the soft limit of `Max locked memory         8388608              8388608              bytes`.
fn locked(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(None),
        bytes => bytes.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_counts_and_unlimited_is_none() {
        let line = |soft| format!("Limit  Soft\nMax locked memory         {soft}    unlimited   bytes\n");
        assert_eq!(locked(&line("65536")), Some(Some(65536)));
        assert_eq!(locked(&line("unlimited")), Some(None));
        assert_eq!(locked("another limit"), None);
    }
}
