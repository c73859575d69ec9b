//! Runs of the built `silkrail` executable.

use std::{ffi::OsStr, path::PathBuf, process::Command};

use serde_json::Value;

/// The exit status and the output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    /// Exit status; `None` if a signal killed the command.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Returns the path of the executable: tests are in `target/<profile>/deps`.
///
/// # Panics
/// If it is not built.
pub fn executable() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap().join("silkrail");
    assert!(built.is_file(), "{} is not built: run hack/test, or cargo build -p silkrail", built.display());
    built
}

/// Runs `silkrail` with arguments separated by blanks.
///
/// # Panics
/// If it cannot be run.
pub fn silkrail(args: &str) -> CommandOutput {
    silkrail_by(&[], args)
}

/// Runs `silkrail` by another command, such as `unshare --pid`, with arguments separated by blanks.
///
/// # Panics
/// If it cannot be run.
pub fn silkrail_by(prefix: &[&str], args: &str) -> CommandOutput {
    let executable = executable();
    let words = prefix
        .iter()
        .map(OsStr::new)
        .chain([executable.as_os_str()])
        .chain(args.split_whitespace().map(OsStr::new));
    let words: Vec<_> = words.collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    CommandOutput { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl CommandOutput {
    /// Checks the exit status, and returns the output.
    ///
    /// # Panics
    /// If the exit status is another.
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        self
    }

    /// Parses standard output as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("standard output is not JSON ({e}): {self:?}"))
    }
}
