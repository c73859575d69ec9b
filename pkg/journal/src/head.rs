//! Whose journal it is.

use std::{fs, path::PathBuf};

use addr::Attachment;
use netns::NetNsId;
use serde::{Deserialize, Serialize};

/// The first line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// The version of the format.
    pub version: u32,
    /// The plugin that writes it.
    pub plugin: String,
    /// The attachment.
    pub attachment: Attachment,
    /// The network's name.
    pub network: String,
    /// `CNI_NETNS` of the ADD.
    pub netns_path: PathBuf,
    /// The namespace it named then; absent if the plugin had no use for it.
    pub netns: Option<NetNsId>,
    /// The boot of the kernel in which it was written.
    pub boot_id: String,
}

impl Head {
    /// The version this program writes, and the newest it reads.
    pub const VERSION: u32 = 1;
}

/// The identity of this boot; empty where the kernel does not tell.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
