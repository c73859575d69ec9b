//! What a plugin's own errors mean to who called the plugin.

/// What an error means to who called the plugin. [`crate::Error`] gives each its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// A key of the configuration asks for what is not supported here.
    UnsupportedField,
    /// The configuration is wrong.
    InvalidConfig,
    /// A variable of the environment is wrong.
    InvalidEnvironment,
    /// CHECK: the node is not as ADD left it.
    Changed,
    /// Somebody else has it.
    InUse,
    /// The same call may succeed later.
    TryAgain,
    /// A pod required RDMA and would not have it.
    NoRdma,
    /// No address is left, or may be given.
    NoAddress,
    /// Anything else.
    Internal,
}

/// An error that is a plugin's own.
pub trait PluginError: std::error::Error + Send + Sync + 'static {
    /// What it means to who called the plugin.
    fn condition(&self) -> Condition;

    /// What to do about it, or more about its cause; empty if the error's text says everything.
    fn details(&self) -> String {
        String::new()
    }
}
