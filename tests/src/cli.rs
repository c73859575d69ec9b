//! The operator's command, as built.

use std::{path::PathBuf, process::Command};

use serde_json::Value;

/// How a command ended and what it printed.
#[derive(Debug)]
pub struct CommandOutput {
    /// Its exit status.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
}

/// The executable: tests are in `target/<profile>/deps`.
///
/// # Panics
/// If the test's own path is not known.
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
    let output = Command::new(executable()).args(args.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    CommandOutput { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl CommandOutput {
    /// It ended with this status.
    ///
    /// # Panics
    /// If it did not.
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        self
    }

    /// The JSON that it printed.
    ///
    /// # Panics
    /// If it printed something else.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {self:?}"))
    }
}
