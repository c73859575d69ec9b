//! `silkrail check restore`: gives back what a test that was killed has left.

use std::{io::Write, path::Path};

use check::governor::Governors;

use crate::exit::{CommandError, CommandExit};

/// Give the CPUs' governors back that a killed test has left at performance
///
/// Every test with --governor does so too before it begins.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArgs {}

const EXAMPLES: &str = "\
Examples:
  silkrail check restore

Exit status:
  0   done, or nothing was left
  1   an error
  2   wrong usage";

impl RestoreArgs {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        match Governors::below(root).restore_after_kill()? {
            None => writeln!(out, "nothing is to be given back")?,
            Some(cpus) => writeln!(out, "the governors of {cpus} CPUs are as they were")?,
        }
        Ok(CommandExit::Done)
    }
}
