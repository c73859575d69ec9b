//! What a verb is called with. A field that the protocol guarantees is no `Option`.

use std::path::PathBuf;

use addr::Attachment;

use crate::{Args, NetConf};

/// What every call has.
#[derive(Debug)]
pub struct Common<'a> {
    /// The configuration.
    pub conf: NetConf,
    /// `CNI_ARGS`.
    pub args: Args,
    /// `CNI_PATH`: where delegates are looked for.
    pub cni_path: Vec<PathBuf>,
    /// The configuration exactly as received, for a delegate.
    pub stdin: &'a [u8],
}

/// A call about one attachment.
#[derive(Debug)]
pub struct Request<'a, N> {
    /// Which one.
    pub attachment: Attachment,
    /// `CNI_NETNS`. Results echo the path as it was given; the namespace it names must be looked at anew.
    pub netns: N,
    /// Whether `CNI_NETNS` may be the plugin's own namespace (`CNI_NETNS_OVERRIDE`).
    pub own_netns_allowed: bool,
    /// The rest.
    pub common: Common<'a>,
}

/// ADD.
pub type Add<'a> = Request<'a, PathBuf>;
/// CHECK.
pub type Check<'a> = Request<'a, PathBuf>;
/// DEL: the namespace may be gone, and its path need not be given.
pub type Del<'a> = Request<'a, Option<PathBuf>>;

/// GC: what is still valid; everything else of this network may go.
#[derive(Debug)]
pub struct Gc<'a> {
    /// The attachments that are still valid.
    pub valid: Vec<Attachment>,
    /// The rest.
    pub common: Common<'a>,
}

/// STATUS.
#[derive(Debug)]
pub struct Status<'a> {
    /// What there is.
    pub common: Common<'a>,
}
