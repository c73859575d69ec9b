//! Errors of the state of a node.

use std::path::PathBuf;

use identifiers::Attachment;

/// State cannot be read or written, or a claim cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A state file cannot be read or written.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// A journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// A network namespace cannot be opened.
    #[error(transparent)]
    NetNs(#[from] netns::Error),
    /// An entry of the pod map cannot be read or written.
    #[error(transparent)]
    PodMap(#[from] podmap::Error),
    /// The store of address claims failed.
    #[error(transparent)]
    Address(#[from] ipam::StoreError),
    /// The state directory is in a container.
    #[error("the state directory {} is in a container, not on the node: {evidence}", path.display())]
    OfContainer {
        /// The state directory.
        path: PathBuf,
        /// How that is known.
        evidence: String,
    },
    /// The device is claimed by an attachment whose pod is not certainly gone.
    #[error("{device} is already allocated to {owner}")]
    InUse {
        /// The device, for example `pci address 0000:af:00.1`.
        device: String,
        /// The owner of the claim.
        owner: Attachment,
        /// The path of the owner's network namespace.
        netns: PathBuf,
        /// Why the owner counts as alive, if that path does not lead to its namespace.
        evidence: Option<String>,
    },
    /// Each attempt to claim the device failed because another attachment had claimed it.
    #[error("{claim}: other attachments keep claiming and releasing it; try again later")]
    Contended {
        /// The claim that could not be made.
        claim: String,
    },
    /// The device is no longer claimed by the attachment.
    #[error(
        "{claim} is no longer held by this attachment; current owner: {}",
        .owner.as_ref().map_or_else(|| "none".to_owned(), Attachment::to_string)
    )]
    NotOwner {
        /// The claim that should exist.
        claim: String,
        /// The current owner of the device.
        owner: Option<Attachment>,
    },
}
