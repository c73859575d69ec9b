//! What a verb is called with. A field that the protocol guarantees is no `Option`.

use std::path::PathBuf;

use identifiers::Attachment;

use crate::{CniArgs, NetConf};

/// What every call has.
#[derive(Debug)]
pub struct CallContext<'a> {
    /// The configuration.
    pub conf: NetConf,
    /// `CNI_ARGS`.
    pub args: CniArgs,
    /// `CNI_PATH`: where delegates are looked for.
    pub cni_path: Vec<PathBuf>,
    /// The configuration exactly as received, for a delegate.
    pub stdin: &'a [u8],
}

/// A call about one attachment.
#[derive(Debug)]
pub struct AttachmentRequest<'a, N> {
    /// Which one.
    pub attachment: Attachment,
    /// `CNI_NETNS`. Results echo the path as it was given; the namespace it names must be looked at anew.
    pub netns: N,
    /// Whether `CNI_NETNS` may be the plugin's own namespace (`CNI_NETNS_OVERRIDE`).
    pub own_netns_allowed: bool,
    /// The rest.
    pub common: CallContext<'a>,
}

/// ADD.
pub type AddRequest<'a> = AttachmentRequest<'a, PathBuf>;
/// CHECK.
pub type CheckRequest<'a> = AttachmentRequest<'a, PathBuf>;
/// DEL: the namespace may be gone, and its path need not be given.
pub type DelRequest<'a> = AttachmentRequest<'a, Option<PathBuf>>;

/// GC: what is still valid; everything else of this network may go.
#[derive(Debug)]
pub struct GcRequest<'a> {
    /// The attachments that are still valid.
    pub valid: Vec<Attachment>,
    /// The rest.
    pub common: CallContext<'a>,
}

/// STATUS.
#[derive(Debug)]
pub struct StatusRequest<'a> {
    /// What there is.
    pub common: CallContext<'a>,
}
