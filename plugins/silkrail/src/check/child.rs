//! What stands between us and a program of perftest, so that it never outlives us, even if we are killed.

use std::{ffi::OsString, process};

use check::perftest::become_child;

use crate::exit::{CommandError, CommandExit};

/// Execute a program that ends with its parent
#[derive(Debug, clap::Args)]
pub(crate) struct CheckExecArgs {
    /// The parent: if it is another by now, it is dead
    parent: u32,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// What is put in front of a program.
pub(super) fn wrapper() -> Vec<OsString> {
    // This executable, even if another has its name by now.
    let words = ["/proc/self/exe".into(), "check".into(), "child".into(), process::id().to_string().into()];
    words.to_vec()
}

impl CheckExecArgs {
    pub(super) fn run(&self) -> Result<CommandExit, CommandError> {
        match become_child(self.parent, &self.command)? {}
    }
}
