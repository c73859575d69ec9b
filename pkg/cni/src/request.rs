//! The requests that the operations are called with. A field that the protocol guarantees is not an `Option`.

use std::path::PathBuf;

use identifiers::Attachment;

use crate::{CniArgs, NetConf};

/// The fields that all requests have.
#[derive(Debug)]
pub struct CallContext<'a> {
    /// The parsed configuration.
    pub conf: NetConf,
    /// `CNI_ARGS`, parsed; empty if a DEL has malformed ones.
    pub args: CniArgs,
    /// `CNI_PATH`: the directories that are searched for delegates.
    pub cni_path: Vec<PathBuf>,
    /// The configuration exactly as received, to be passed to a delegate.
    pub stdin: &'a [u8],
}

/// A request for one attachment.
#[derive(Debug)]
pub struct AttachmentRequest<'a, N> {
    /// `CNI_CONTAINERID` and `CNI_IFNAME`.
    pub attachment: Attachment,
    /// `CNI_NETNS`, unresolved: results contain the path unchanged, so each use must open the namespace again.
    pub netns: N,
    /// Whether `CNI_NETNS` can be the plugin's own namespace (`CNI_NETNS_OVERRIDE`).
    pub own_netns_allowed: bool,
    /// The configuration, the arguments and the search path.
    pub common: CallContext<'a>,
}

/// The request of an ADD.
pub type AddRequest<'a> = AttachmentRequest<'a, PathBuf>;
/// The request of a CHECK.
pub type CheckRequest<'a> = AttachmentRequest<'a, PathBuf>;
/// The request of a DEL: the namespace might not exist any more, and its path is optional.
pub type DelRequest<'a> = AttachmentRequest<'a, Option<PathBuf>>;

/// The request of a GC: every attachment of the network that is not listed is removed.
#[derive(Debug)]
pub struct GcRequest<'a> {
    /// The attachments that are still valid.
    pub valid: Vec<Attachment>,
    /// The configuration, the arguments and the search path.
    pub common: CallContext<'a>,
}

/// The request of a STATUS.
#[derive(Debug)]
pub struct StatusRequest<'a> {
    /// The configuration, the arguments and the search path.
    pub common: CallContext<'a>,
}
