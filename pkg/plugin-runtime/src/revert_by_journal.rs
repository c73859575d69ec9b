//! Reverting an attachment from its journal alone, and ending unused masters, without a CNI call.

use std::path::PathBuf;

use cni::Plugin;
use identifiers::{Attachment, LinkName};
use state::StateDir;

use crate::{Error, UnusedMaster};

/// A plugin whose attachments can be reverted by their journals, as `silkrail gc` does.
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

    /// Returns the masters that no attachment uses: see [`JournaledPlugin::unused_masters`](crate::JournaledPlugin).
    ///
    /// # Errors
    /// If they cannot be determined.
    fn unused_masters(&self, state: StateDir) -> Result<Vec<UnusedMaster>, Error>;

    /// Ends one of them, unless it is in use by now.
    ///
    /// # Errors
    /// What could not be reverted.
    fn end_unused_master(&self, state: StateDir, name: &LinkName) -> Result<(), Error>;
}
