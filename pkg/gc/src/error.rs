//! Why stale resources could not be determined or reverted.

/// Stale resources could not be determined or reverted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The running pods cannot be determined from this process, for example in a container.
    #[error(transparent)]
    CannotJudge(#[from] netns::NotOnNode),
    /// The boot ID, `/proc/sys/kernel/random/boot_id`, cannot be read.
    #[error("cannot read the boot ID: {0}")]
    NoBootId(#[from] journal::Error),
    /// A file below the state directory cannot be read or written.
    #[error(transparent)]
    State(#[from] state::Error),
    /// The record of the runs cannot be written.
    #[error(transparent)]
    Record(#[from] gc_record::GcRecordError),
    /// A journal was written by a plugin that this version does not have.
    #[error("this version of Silkrail has no plugin {0:?}; use the version that attached the pod")]
    UnknownPlugin(String),
    /// The plugin could not revert an attachment.
    #[error(transparent)]
    Plugin(#[from] plugin_runtime::Error),
}
