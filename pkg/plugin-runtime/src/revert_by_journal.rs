//! Reverting an attachment from its journal alone, without a CNI call.

use std::path::PathBuf;

use cni::Plugin;
use identifiers::Attachment;
use state::StateDir;

use crate::Error;

/// A plugin whose attachments can be reverted by their journals.
pub trait RevertByJournal: Plugin {
    /// Reverts an attachment whose journal was found to be stale. Does nothing if the journal has another `inode` by
    /// now. The IPAM plugin is searched for in the directories that ADD used, then in `cni_path`.
    ///
    /// # Errors
    /// The changes that could not be reverted.
    fn revert_attachment(
        &self,
        state: StateDir,
        cni_path: Vec<PathBuf>,
        attachment: &Attachment,
        inode: u64,
    ) -> Result<(), Error>;
}
