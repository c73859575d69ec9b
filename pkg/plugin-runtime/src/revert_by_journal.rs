//! A plugin for whoever has nothing but a journal of its.

use std::path::PathBuf;

use cni::Plugin;
use identifiers::Attachment;
use state::StateDir;

use crate::Error;

/// A plugin whose attachments are in journals.
pub trait RevertByJournal: Plugin {
    /// Takes back an attachment whose journal, known by its inode, was judged to be stale. Where it is another file by
    /// now, nothing is done. `cni_path` is where the IPAM plugin is looked for, beside where it was.
    ///
    /// # Errors
    /// What is left.
    fn revert_attachment(
        &self,
        state: StateDir,
        cni_path: Vec<PathBuf>,
        attachment: &Attachment,
        inode: u64,
    ) -> Result<(), Error>;
}
