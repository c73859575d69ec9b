//! `silkrail check page`: the history as an HTML page.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use check::{history_page::page, result_store::ResultStore};

use crate::exit::{CommandError, CommandExit};

/// Write the results stored on this node as a self-contained HTML page with charts
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PageArgs {
    /// The file to write; - for standard output
    file: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  silkrail check page rdma.html
  silkrail check page - | ssh web 'cat >/srv/www/rdma.html'

Exit status:
  0   done
  1   an error
  2   wrong usage";

impl PageArgs {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let page = page(&ResultStore::below(root).read()?);
        if self.file == Path::new("-") {
            out.write_all(page.as_bytes())?;
        } else {
            statefile::replace(&self.file, 0o644, page.as_bytes()).map_err(check::Error::from)?;
        }
        Ok(CommandExit::Done)
    }
}
