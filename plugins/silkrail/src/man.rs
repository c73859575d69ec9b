//! `silkrail man`: the manual pages, for hack/build.

use std::path::PathBuf;

use clap::Command;
use manual_pages::ManualSection;

use crate::exit::{CommandError, CommandExit};

/// Write the manual pages into a directory
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct ManArgs {
    /// The directory that gets silkrail.1, silkrail-gc.1 and so on
    dir: PathBuf,
}

impl ManArgs {
    pub(crate) fn run(&self, command: Command) -> Result<CommandExit, CommandError> {
        manual_pages::write(command, ManualSection::Commands, &self.dir)?;
        Ok(CommandExit::Done)
    }
}
