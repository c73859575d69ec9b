//! Why a node could not be judged, or something not be reverted.

/// A node could not be judged, or something not be reverted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody can say from here who lives.
    #[error(transparent)]
    CannotJudge(#[from] netns::NotOnNode),
    /// The kernel does not tell which boot this is.
    #[error("which boot is this? {0}")]
    NoBootId(#[from] journal::Error),
    /// State.
    #[error(transparent)]
    State(#[from] state::Error),
    /// A journal is of a plugin that is not there.
    #[error("this version of Silkrail has no plugin {0:?}: use the version that attached the pod")]
    UnknownPlugin(String),
    /// What a DEL could not take back.
    #[error(transparent)]
    Plugin(#[from] plugin_runtime::Error),
}
