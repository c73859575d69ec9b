//! What can be wrong with the state of a node.

use std::path::PathBuf;

use identifiers::Attachment;

/// State could not be read or written, or says that something is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// A journal.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// A namespace.
    #[error(transparent)]
    NetNs(#[from] netns::Error),
    /// The pod map.
    #[error(transparent)]
    PodMap(#[from] podmap::Error),
    /// The addresses.
    #[error(transparent)]
    Address(#[from] ipam::StoreError),
    /// A living attachment has claimed a device.
    #[error("{device} is already allocated to {owner}")]
    InUse {
        /// The device.
        device: String,
        /// Who has it.
        owner: Attachment,
        /// The path of its namespace.
        netns: PathBuf,
    },
    /// Others were faster, again and again.
    #[error("{claim} is made and released all the time by other attachments")]
    Contended {
        /// What was to be claimed.
        claim: String,
    },
    /// A device is not the attachment's any more.
    #[error("{claim}: it belongs to {} now", .owner.as_ref().map_or_else(|| "nobody".to_owned(), Attachment::to_string))]
    NotOwner {
        /// The claim that should be there.
        claim: String,
        /// Who has the device instead.
        owner: Option<Attachment>,
    },
}
