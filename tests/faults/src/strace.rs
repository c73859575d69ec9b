//! `strace`: records the system calls of a plugin, and injects a fault at one of them.
//!
//! A plugin is one process with one thread, and calls the built-in IPAM plugin in-process, so `-f` is not needed.

use std::{collections::BTreeMap, fmt, fs, path::Path};

/// The n-th execution of a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FaultPoint {
    /// The name of the system call, e.g. `openat`.
    pub(crate) name: String,
    /// The number of the execution, from 1.
    pub(crate) nth: usize,
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.nth)
    }
}

/// The program and arguments that write every system call to `log`.
pub(crate) fn record(log: &Path) -> Vec<String> {
    words(&format!("strace -qq --output={}", log.display()))
}

/// The program and arguments that inject a fault at a point.
pub(crate) fn inject(point: &FaultPoint, fault: &str, log: &Path) -> Vec<String> {
    let FaultPoint { name, nth } = point;
    let output = log.display();
    words(&format!("strace -qq --output={output} --trace={name} --inject={name}:{fault}:when={nth}"))
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// The points of a recorded run, in order, without execve, which starts the plugin, and exit_group, which cannot
/// fail.
pub(crate) fn points(log: &Path) -> Vec<FaultPoint> {
    let text = fs::read_to_string(log).unwrap();
    let mut counts = BTreeMap::new();
    let calls = text.lines().filter_map(system_call);
    let points = calls.map(|name| {
        let nth = counts.entry(name).and_modify(|n| *n += 1).or_insert(1);
        FaultPoint { name: name.to_owned(), nth: *nth }
    });
    points.filter(|point| !matches!(point.name.as_str(), "execve" | "exit_group")).collect()
}

/// The name in a line like `openat(AT_FDCWD, …) = 3`.
fn system_call(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('(')?;
    (!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')).then_some(name)
}

/// Whether a run with an injected error reached the point.
pub(crate) fn was_injected(log: &Path) -> bool {
    fs::read_to_string(log).unwrap().contains("(INJECTED)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_points_of_a_run_are_counted_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let text = "execve(\"/x\", [\"x\"], 0x1 /* 2 vars */) = 0\nread(0, \"\", 1) = 0\nclose(3) = 0\n\
                    read(0, \"a(b\", 1) = 0\n--- SIGPIPE {si_signo=SIGPIPE} ---\nexit_group(0) = ?\n";
        fs::write(&log, text).unwrap();
        let points: Vec<_> = points(&log).iter().map(FaultPoint::to_string).collect();
        assert_eq!(points, ["read 1", "close 1", "read 2"]);
        assert!(!was_injected(&log));
    }
}
