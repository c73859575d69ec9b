//! What an installation does with a file.

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallAction {
    /// The file did not exist.
    Install,
    /// The file was another build of Silkrail.
    Upgrade,
    /// The file belonged to another project; it is saved in the store.
    Replace,
    /// The file is up to date.
    Unchanged,
    /// The file belongs to another project and is not replaced.
    LeftAlone,
}
