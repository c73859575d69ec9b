//! `silkrail ipam release-node`: runs `silkraild ipam-release-node`, since only that program has a client of the API server.

use std::{env, ffi::OsString, os::unix::process::CommandExt, path::PathBuf, process::Command};

use crate::exit::{CommandError, CommandExit};

/// Release the blocks of a node that is gone for ever (runs `silkraild ipam-release-node`)
///
/// The arguments are those of `silkraild ipam-release-node`, which must be installed beside this program or in PATH.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ReleaseNodeArgs {
    /// Arguments; --help explains them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "NODE [OPTION…]")]
    arguments: Vec<OsString>,
}

impl ReleaseNodeArgs {
    pub(crate) fn run(&self) -> Result<CommandExit, CommandError> {
        let program = daemon()?;
        let source = Command::new(&program).arg("ipam-release-node").args(&self.arguments).exec();
        Err(CommandError::Input { path: program, source })
    }
}

/// Returns the path of the daemon: beside this program, or else its name.
fn daemon() -> Result<PathBuf, CommandError> {
    let this = env::current_exe().map_err(CommandError::CurrentExe)?;
    let beside = this.with_file_name("silkraild");
    Ok(if beside.is_file() { beside } else { "silkraild".into() })
}
