//! What a plugin is.

use crate::{AddRequest, AddResult, CheckRequest, DelRequest, Error, GcRequest, StatusRequest};

/// A CNI plugin: the verbs, each called with what the protocol guarantees for it.
pub trait Plugin: Sync {
    /// The plugin's name, as a configuration's `type` gives it.
    fn name(&self) -> &'static str;

    /// What to print on standard error when `CNI_COMMAND` is not set; `None` makes that an error.
    fn about(&self) -> Option<String> {
        None
    }

    /// Attaches a container, all or nothing.
    ///
    /// # Errors
    /// Whatever made it impossible; the node is then as before.
    fn add(&self, request: &AddRequest<'_>) -> Result<AddResult, Error>;

    /// Takes an attachment back. Succeeds if it is gone, was never there, or its namespace is gone.
    ///
    /// # Errors
    /// What could not be taken back and may be at the next call.
    fn del(&self, request: &DelRequest<'_>) -> Result<(), Error>;

    /// Looks whether an attachment is as ADD left it.
    ///
    /// # Errors
    /// What differs.
    fn check(&self, request: &CheckRequest<'_>) -> Result<(), Error>;

    /// Takes back every attachment of the network that is not listed as valid.
    ///
    /// # Errors
    /// What could not be taken back; the others have been.
    fn gc(&self, request: &GcRequest<'_>) -> Result<(), Error>;

    /// Looks whether an ADD could succeed now.
    ///
    /// # Errors
    /// [`crate::ErrorCode::NOT_AVAILABLE`] or [`crate::ErrorCode::LIMITED_CONNECTIVITY`] with the reason.
    fn status(&self, request: &StatusRequest<'_>) -> Result<(), Error>;
}
