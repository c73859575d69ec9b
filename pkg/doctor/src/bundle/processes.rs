//! The processes that have RDMA devices open.
//!
//! Their arguments are not collected, since they can contain secrets.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use crate::host_root;

const RDMA_FILES: &str = "/dev/infiniband/";
/// The maximum number of processes that are listed.
const MAX_PROCESSES: usize = 4096;
/// The maximum number of open files of a process that are examined.
const MAX_FILES: usize = 65_536;
/// The maximum size of a name and of the paths of control groups.
const MAX_TEXT_BYTES: u64 = 4096;

/// Returns a paragraph for each process: its PID and name, its open files with their number, and its control groups.
pub(super) fn list(root: &Path) -> String {
    let mut pids: Vec<u32> = fs::read_dir(root.join("proc"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    let mut text = String::new();
    let users = pids.into_iter().filter_map(|pid| {
        let process = root.join("proc").join(pid.to_string());
        let files = rdma_files(&process);
        (!files.is_empty()).then_some((pid, process, files))
    });
    for (pid, process, files) in users.take(MAX_PROCESSES) {
        let _ = writeln!(text, "{pid} {}", plain(read(&process.join("comm")).trim_end_matches('\n')));
        for (path, count) in files {
            let _ = writeln!(text, "  {path} {count}");
        }
        for line in read(&process.join("cgroup")).lines() {
            let _ = writeln!(text, "  {}", plain(line));
        }
    }
    text
}

/// Returns the RDMA devices that a process has open; none if this user may not know that.
fn rdma_files(process: &Path) -> BTreeMap<String, usize> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(process.join("fd")).into_iter().flatten().flatten().take(MAX_FILES) {
        let target = fs::read_link(entry.path()).unwrap_or_else(|_| PathBuf::new());
        if let Some(name) = target.to_str().filter(|target| target.starts_with(RDMA_FILES)) {
            *files.entry(plain(name)).or_default() += 1;
        }
    }
    files
}

fn read(path: &Path) -> String {
    let bytes = host_root::read(path, MAX_TEXT_BYTES).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A process can choose its name: no character of it may begin a line of the list or control a terminal. Blanks instead of them
/// leave secrets recognizable.
fn plain(text: &str) -> String {
    text.chars().map(|c| if identifiers::is_unprintable(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_process_is_listed_with_its_devices() {
        let root = tempfile::tempdir().unwrap();
        let process = |pid: &str, comm: &str, files: &[&str]| {
            let dir = root.path().join("proc").join(pid);
            fs::create_dir_all(dir.join("fd")).unwrap();
            fs::write(dir.join("comm"), comm).unwrap();
            fs::write(dir.join("cgroup"), "0::/kubepods.slice/pod1\n").unwrap();
            fs::write(dir.join("cmdline"), "train\0--token=abc\0").unwrap();
            for (number, file) in files.iter().enumerate() {
                symlink(file, dir.join("fd").join(number.to_string())).unwrap();
            }
        };
        let uverbs = "/dev/infiniband/uverbs0";
        process(
            "200",
            "train\u{1b}[2J\nx\n",
            &["/dev/null", uverbs, "/dev/infiniband/rdma_cm", uverbs, uverbs],
        );
        process("30", "other\n", &["/dev/null", "/tmp/dev/infiniband/uverbs0"]);
        process("7", "daemon\n", &[uverbs]);
        let expected = "7 daemon\n  /dev/infiniband/uverbs0 1\n  0::/kubepods.slice/pod1\n\
                        200 train [2J x\n  /dev/infiniband/rdma_cm 1\n  /dev/infiniband/uverbs0 3\n  0::/kubepods.slice/pod1\n";
        assert_eq!(list(root.path()), expected);
    }
}
