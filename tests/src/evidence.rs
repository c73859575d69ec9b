//! The evidence that a test's node shows `silkrail gc`: a root directory whose `/proc` has the test's own processes only.
//!
//! Other tests run beside this one in namespaces of their own, and the kernel gives the number of a dead namespace to the
//! next: what a whole machine shows would depend on them.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use testkit::TestNode;

use crate::cli::{CommandOutput, silkrail};

/// A root directory to judge by.
#[derive(Debug)]
pub struct ProcFixture {
    root: PathBuf,
    state: PathBuf,
}

impl ProcFixture {
    /// The evidence of a node without processes; its mounts are the test's.
    ///
    /// # Panics
    /// If it cannot be laid out.
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

    /// Shows a process.
    ///
    /// # Panics
    /// If it cannot be shown.
    pub fn process(&self, pid: u32) {
        symlink(Path::new("/proc").join(pid.to_string()), self.root.join("proc").join(pid.to_string()))
            .unwrap();
    }

    /// The root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs `silkrail gc` with further arguments.
    pub fn gc(&self, args: &str) -> CommandOutput {
        silkrail(&format!("--root {} gc --state-dir {} {args}", self.root.display(), self.state.display()))
    }

    /// What of the findings has this state, as `what attachment object`.
    ///
    /// # Panics
    /// If the command fails.
    pub fn with_state(&self, args: &str, state: &str) -> Vec<String> {
        let found = self.gc(&format!("{args} --json")).ended(0).json();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
        let of = |finding: &serde_json::Value| {
            format!(
                "{} {} {}",
                text(&finding["what"]),
                text(&finding["attachment"]),
                text(&finding["object"])
            )
        };
        found.as_array().unwrap().iter().filter(|finding| finding["state"] == state).map(of).collect()
    }
}
