//! What a plugin's own errors mean to the caller of the plugin.

use std::fmt;

/// What an error means to the caller of the plugin. [`crate::Error`] maps each to a CNI error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// A key of the configuration requests something that is not supported here.
    UnsupportedField,
    /// The configuration is invalid.
    InvalidConfig,
    /// An environment variable is invalid.
    InvalidEnvironment,
    /// CHECK: the node differs from the state that ADD left.
    Changed,
    /// Another attachment or process uses the device, link or address.
    InUse,
    /// The same call may succeed later.
    TryAgain,
    /// The network requires RDMA, and the pod would not have it.
    NoRdma,
    /// No address is free, or none of the free ones is allowed.
    NoAddress,
    /// Any other error.
    Internal,
}

/// An error that only one plugin has, as opposed to the variants of [`crate::Error`].
///
/// It does not require [`std::error::Error`]: the trait object would contain the `Debug` output of every error.
pub trait PluginError: fmt::Display + Send + Sync + 'static {
    /// Returns what the error means to the caller, which decides its code.
    fn condition(&self) -> Condition;

    /// Returns the remedy, or more about the cause; empty if the error's text is sufficient.
    fn details(&self) -> String {
        String::new()
    }
}

impl fmt::Debug for dyn PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
