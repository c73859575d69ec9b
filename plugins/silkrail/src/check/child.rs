//! `silkrail check child`: the wrapper of perftest's programs, so that they never outlive `silkrail`, even if it is killed.

use std::{ffi::OsString, process};

use check::perftest::become_child;

use crate::exit::{CommandError, CommandExit};

/// Execute a program that is killed with its parent
#[derive(Debug, clap::Args)]
pub(crate) struct CheckExecArgs {
    /// The process ID of the parent; nothing is executed if the parent has exited
    parent: u32,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Returns the command that precedes a program.
pub(super) fn wrapper() -> Vec<OsString> {
    // The running executable, even if its file has been replaced.
    let words = ["/proc/self/exe".into(), "check".into(), "child".into(), process::id().to_string().into()];
    words.to_vec()
}

impl CheckExecArgs {
    pub(super) fn run(&self) -> Result<CommandExit, CommandError> {
        match become_child(self.parent, &self.command)? {}
    }
}
