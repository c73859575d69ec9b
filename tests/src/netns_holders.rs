//! What holds network namespaces besides this process's own: while one exists, the RDMA mode cannot be changed.

use std::{
    collections::BTreeSet,
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The tables of sockets of a network namespace.
const SOCKETS: [&str; 9] = ["netlink", "packet", "raw", "raw6", "tcp", "tcp6", "udp", "udp6", "unix"];

/// The holders, as they are found at one moment.
#[derive(Debug)]
pub struct NetnsHolders(BTreeSet<String>);

impl NetnsHolders {
    /// Finds the threads, open files, sockets and mounts of all processes.
    pub fn find() -> Self {
        let own = link(Path::new("/proc/thread-self/ns/net"));
        let listed: BTreeSet<_> = SOCKETS
            .iter()
            .flat_map(|table| words(&read(&Path::new("/proc/thread-self/net").join(table))))
            .collect();
        let mut found = Self(BTreeSet::new());
        let processes = entries(Path::new("/proc"));
        for process in processes.into_iter().filter(|path| name(path).parse::<u32>().is_ok()) {
            let of = Process::read(&process);
            for thread in entries(&process.join("task")) {
                let netns = link(&thread.join("ns/net"));
                found.add_unless(netns.is_empty() || netns == own, || {
                    format!("{of}: thread {} ({}) is in {netns}", name(&thread), read(&thread.join("comm")))
                });
                // A mount that several threads see is printed once.
                for line in read(&thread.join("mountinfo")).lines().filter(|line| line.contains(" - nsfs ")) {
                    let columns: Vec<_> = line.split(' ').collect();
                    found.add_unless(!columns[3].starts_with("net:[") || columns[3] == own, || {
                        format!("{} is mounted at {}", columns[3], columns[4])
                    });
                }
                // Most threads share the table of their process, but not all.
                for file in entries(&thread.join("fd")) {
                    let target = link(&file);
                    let netns = opened_netns(&file, &target).filter(|netns| *netns != own);
                    found.add_unless(netns.is_none(), || {
                        format!("{of}: file {} is {}", name(&file), netns.unwrap_or_default())
                    });
                    // The kernel does not say which namespace a socket is in, only which are in this one.
                    let socket = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
                    found.add_unless(socket.is_none_or(|inode| listed.contains(inode)), || {
                        format!("{of}: file {} is {target}, which is not listed in {own}", name(&file))
                    });
                }
            }
            let stack = read(&process.join("stack"));
            found.add_unless(!stack.contains("cleanup_net"), || format!("{of} is deleting one:\n{stack}"));
        }
        found
    }

    fn add_unless(&mut self, is_other: bool, text: impl FnOnce() -> String) {
        if !is_other {
            self.0.insert(text());
        }
    }
}

impl fmt::Display for NetnsHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no thread, open file or mount holds a network namespace");
        }
        self.0.iter().try_for_each(|holder| writeln!(f, "{holder}"))
    }
}

/// A process, as it is printed.
struct Process {
    pid: String,
    comm: String,
    state: String,
    command: String,
}

impl Process {
    fn read(path: &Path) -> Self {
        let status = read(&path.join("status"));
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("ended");
        Self {
            pid: name(path),
            comm: read(&path.join("comm")),
            state: state.trim().to_owned(),
            command: read(&path.join("cmdline")).replace('\0', " ").trim().to_owned(),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({}, {}: {})", self.pid, self.comm, self.state, self.command)
    }
}

/// Returns the name of the network namespace of an open file. The kernel prints the path of one that was opened where it is mounted.
fn opened_netns(file: &Path, target: &str) -> Option<String> {
    if !target.starts_with('/') {
        return target.starts_with("net:[").then(|| target.to_owned());
    }
    let of_kernel = fs::metadata("/proc/thread-self/ns/net").ok()?;
    let opened = fs::metadata(file).ok()?;
    (opened.dev() == of_kernel.dev()).then(|| format!("net:[{}]", opened.ino()))
}

// What has ended meanwhile is empty.

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn link(path: &Path) -> String {
    fs::read_link(path).map(|target| target.display().to_string()).unwrap_or_default()
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned()).unwrap_or_default()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn words(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsRawFd};

    use testkit::{Observe, TestNode};

    use super::*;

    #[test]
    fn threads_open_files_and_mounts_are_found() {
        let node = TestNode::new();
        let pod = node.pod("a");
        let file = File::open(pod.path()).unwrap();
        let netns = format!("net:[{}]", file.metadata().unwrap().ino());
        let held = [
            format!(": file {} is {netns}", file.as_raw_fd()),
            format!("{netns} is mounted at {}", pod.path().display()),
        ];
        let found = NetnsHolders::find().to_string();
        assert!(held.iter().all(|holder| found.lines().any(|line| line.ends_with(holder))), "{found}");
        let thread = format!(" is in {}", link(Path::new("/proc/thread-self/ns/net")));
        let found = pod.within(NetnsHolders::find).to_string();
        let own = format!("process {} (", std::process::id());
        assert!(found.lines().any(|line| line.starts_with(&own) && line.ends_with(&thread)), "{found}");
    }
}
