//! Whose journal it is.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

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

    /// The header of a journal, if it can be read. No lock is needed: it never changes.
    pub fn read(path: &Path) -> Option<Self> {
        let bytes = statefile::read(path).ok()??;
        serde_json::from_slice(bytes.split(|b| *b == b'\n').next()?).ok()
    }
}

/// The identity of this boot; empty where the kernel does not tell.
pub fn boot_id() -> String {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    let read = || fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
    BOOT_ID.get_or_init(read).clone()
}
