//! The operations of a plugin.

use crate::{AddRequest, AddResult, CheckRequest, DelRequest, Error, GcRequest, StatusRequest};

/// A CNI plugin: one method for each operation, called with a checked request.
pub trait Plugin: Sync {
    /// Returns the plugin's name, as in the `type` of a configuration.
    fn name(&self) -> &'static str;

    /// Returns the text for standard error if `CNI_COMMAND` is not set; with `None`, that is an error.
    fn about(&self) -> Option<String> {
        None
    }

    /// Attaches a container. If it fails, all changes are reverted.
    ///
    /// # Errors
    /// The reason why the attachment cannot be made.
    fn add(&self, request: &AddRequest<'_>) -> Result<AddResult, Error>;

    /// Removes an attachment. Succeeds if the attachment or its network namespace does not exist.
    ///
    /// # Errors
    /// The changes that could not be reverted; the next DEL or GC tries again.
    fn del(&self, request: &DelRequest<'_>) -> Result<(), Error>;

    /// Checks that an attachment is as ADD left it.
    ///
    /// # Errors
    /// The first difference.
    fn check(&self, request: &CheckRequest<'_>) -> Result<(), Error>;

    /// Removes every attachment of the network that the request does not list as valid.
    ///
    /// # Errors
    /// The attachments that could not be removed; all others are removed.
    fn gc(&self, request: &GcRequest<'_>) -> Result<(), Error>;

    /// Checks whether an ADD could succeed now.
    ///
    /// # Errors
    /// [`crate::ErrorCode::NOT_AVAILABLE`] or [`crate::ErrorCode::LIMITED_CONNECTIVITY`] with the reason.
    fn status(&self, request: &StatusRequest<'_>) -> Result<(), Error>;
}
