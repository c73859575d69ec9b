//! `silkrail check restore`: restores the CPU frequency governors after a test was killed.

use std::{io::Write, path::Path};

use cpufreq::Governors;

use crate::exit::{CommandError, CommandExit};

/// Restore the CPU frequency governors that a killed test has left at performance
///
/// Every test with --governor also does this before it starts.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArgs {}

const EXAMPLES: &str = "\
Examples:
  silkrail check restore

Exit status:
  0   done, or nothing to restore
  1   an error
  2   wrong usage";

impl RestoreArgs {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        match Governors::below(root).restore_after_kill()? {
            None => writeln!(out, "nothing to restore")?,
            Some(cpus) => writeln!(out, "restored the governors of {cpus} CPUs")?,
        }
        Ok(CommandExit::Done)
    }
}
