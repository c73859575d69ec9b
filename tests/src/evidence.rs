//! A root directory for `silkrail gc` whose `/proc` has only the processes of one test.
//!
//! Other tests run concurrently in their own namespaces, and the kernel reuses the inode number of a deleted namespace: the
//! result for the whole machine would depend on them.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use testkit::TestNode;

use crate::cli::{CommandOutput, silkrail};

/// A root directory for the option `--root` of `silkrail`.
#[derive(Debug)]
pub struct ProcFixture {
    root: PathBuf,
    state: PathBuf,
}

impl ProcFixture {
    /// Creates the root directory of a node without processes; the mounts are those of the test.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn of(node: &TestNode) -> Self {
        let root = node.state_dir().with_file_name("root");
        let proc = root.join("proc");
        for process in ["1", "self"] {
            fs::create_dir_all(proc.join(process).join("ns")).unwrap();
            symlink("net:[4026531840]", proc.join(process).join("ns/net")).unwrap();
        }
        symlink("pid:[4026531836]", proc.join("self/ns/pid")).unwrap();
        symlink("/proc/self/mountinfo", proc.join("self/mountinfo")).unwrap();
        fs::write(proc.join("1/mountinfo"), "").unwrap();
        symlink("/run", root.join("run")).unwrap();
        Self { root, state: node.state_dir() }
    }

    /// Adds a process of the machine to `/proc`.
    ///
    /// # Panics
    /// If it cannot be added.
    pub fn process(&self, pid: u32) {
        symlink(Path::new("/proc").join(pid.to_string()), self.root.join("proc").join(pid.to_string()))
            .unwrap();
    }

    /// Returns the root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the state directory.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Runs `silkrail gc` with further arguments.
    pub fn gc(&self, args: &str) -> CommandOutput {
        silkrail(&format!("--root {} gc --state-dir {} {args}", self.root.display(), self.state.display()))
    }

    /// Returns the findings of `silkrail gc` with this state, as `what attachment object`.
    ///
    /// # Panics
    /// If the command fails.
    pub fn with_state(&self, args: &str, state: &str) -> Vec<String> {
        let found = self.gc(&format!("{args} --json")).ended(0).json();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
        let line = |finding: &serde_json::Value| {
            format!(
                "{} {} {}",
                text(&finding["what"]),
                text(&finding["attachment"]),
                text(&finding["object"])
            )
        };
        found.as_array().unwrap().iter().filter(|finding| finding["state"] == state).map(line).collect()
    }
}
