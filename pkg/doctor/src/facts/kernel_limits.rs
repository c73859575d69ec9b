//! Limits of the kernel that the pods of a node share, and how much of each is used.

use std::{fs, os::unix::fs::MetadataExt};

use serde::Serialize;

use crate::host_root::HostRoot;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct KernelLimit {
    /// The sysctl.
    pub(crate) sysctl: &'static str,
    /// What is counted.
    pub(crate) what: &'static str,
    /// What happens at the limit.
    pub(crate) consequence: &'static str,
    pub(crate) used: u64,
    pub(crate) limit: u64,
}

/// Returns the limits whose use can be read.
pub(crate) fn read(tree: &HostRoot) -> Vec<KernelLimit> {
    let limit = |sysctl, what, consequence, used: Option<u64>| {
        let file = format!("proc/sys/{}", str::replace(sysctl, ".", "/"));
        let limit = tree.text(file).into_option()?.split_ascii_whitespace().next()?.parse().ok()?;
        Some(KernelLimit { sysctl, what, consequence, used: used?, limit })
    };
    let found = [
        limit(
            "net.ipv4.neigh.default.gc_thresh3",
            "IPv4 neighbours",
            "pods cannot reach further addresses (\"neighbour: arp_cache: neighbor table overflow\")",
            neighbours(tree, "arp_cache"),
        ),
        limit(
            "net.ipv6.neigh.default.gc_thresh3",
            "IPv6 neighbours",
            "pods cannot reach further addresses (\"neighbour: ndisc_cache: neighbor table overflow\")",
            neighbours(tree, "ndisc_cache"),
        ),
        limit(
            "net.netfilter.nf_conntrack_max",
            "tracked connections",
            "packets of new connections are dropped, among them those that set up RDMA connections",
            number(tree, "proc/sys/net/netfilter/nf_conntrack_count"),
        ),
        limit(
            "fs.file-max",
            "open files",
            "no program can open a file or a socket",
            word(tree, "proc/sys/fs/file-nr", 0),
        ),
        limit("kernel.threads-max", "threads", "no pod can start", threads(tree)),
        limit("kernel.pid_max", "threads", "no pod can start", threads(tree)),
        limit(
            "fs.inotify.max_user_instances",
            "inotify instances of root",
            "the kubelet, the container runtime and silkraild cannot watch files",
            inotify_instances(tree),
        ),
        // The number of namespaces is not reported, so that only a limit of a few is noticed.
        limit("user.max_net_namespaces", "network namespaces", "no pod can start", Some(MIN_NAMESPACES))
            .filter(|limit| limit.limit < MIN_NAMESPACES),
    ];
    found.into_iter().flatten().collect()
}

/// The number of pods that the kubelet allows by default, and some more.
const MIN_NAMESPACES: u64 = 128;

fn number(tree: &HostRoot, file: &str) -> Option<u64> {
    word(tree, file, 0)
}

fn word(tree: &HostRoot, file: &str, index: usize) -> Option<u64> {
    tree.text(file).into_option()?.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// The number of neighbours of all network namespaces, the first column of the second line, in hexadecimal digits.
fn neighbours(tree: &HostRoot, table: &str) -> Option<u64> {
    let text = tree.text(format!("proc/net/stat/{table}")).into_option()?;
    u64::from_str_radix(text.lines().nth(1)?.split_ascii_whitespace().next()?, 16).ok()
}

/// The number of threads: the denominator of `0.20 0.18 0.12 1/1180 11206`.
fn threads(tree: &HostRoot) -> Option<u64> {
    let text = tree.text("proc/loadavg").into_option()?;
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// The number of inotify instances of root's processes.
fn inotify_instances(tree: &HostRoot) -> Option<u64> {
    let names = tree.names("proc");
    let processes = names.items().iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let mut count = 0;
    for process in processes {
        let dir = tree.path(format!("proc/{process}"));
        // A process may end in the meantime.
        if !fs::metadata(&dir).is_ok_and(|meta| meta.uid() == 0) {
            continue;
        }
        let files = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten();
        let is_inotify = |file: &fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:inotify")
        };
        count += files.filter(is_inotify).count() as u64;
    }
    Some(count)
}
