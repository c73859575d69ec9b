//! The file systems that the plugins write to: free space, and whether they are writable.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use serde::Serialize;

use crate::{Known, host_root::HostRoot};

/// The directory of records that outlive a boot.
const RECORDS: &str = "/var/lib/silkrail";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileSystem {
    /// The directory, which might not exist yet.
    pub(crate) directory: String,
    /// Whether the path, or one above it, is not a directory.
    pub(crate) is_file: bool,
    pub(crate) read_only: bool,
    /// Free space for the superuser, in bytes.
    pub(crate) free_bytes: u64,
    /// Free files; `None` if the file system has no limit.
    pub(crate) free_files: Option<u64>,
}

/// Returns the file systems of the state directory and of the records.
pub(crate) fn read(tree: &HostRoot, state_dir: &Path) -> Vec<FileSystem> {
    [state_dir, Path::new(RECORDS)].into_iter().filter_map(|directory| file_system(tree, directory)).collect()
}

fn file_system(tree: &HostRoot, directory: &Path) -> Option<FileSystem> {
    let existing = existing_ancestor(tree, directory)?;
    let shown = directory.display().to_string();
    if tree.metadata(&existing).get().is_some_and(|meta| !meta.is_dir()) {
        return Some(FileSystem { directory: shown, is_file: true, ..FileSystem::default() });
    }
    match statvfs(&tree.path(&existing)) {
        Ok(found) => Some(FileSystem {
            directory: shown,
            is_file: false,
            read_only: found.flags().contains(FsFlags::ST_RDONLY),
            free_bytes: found.blocks_free().saturating_mul(found.fragment_size()),
            free_files: (found.files() > 0).then(|| found.files_free()),
        }),
        Err(errno) => {
            tree.note_unexamined(format!("file system of {shown}"), errno.desc());
            None
        }
    }
}

/// Returns the directory, or the next one above it that exists.
fn existing_ancestor(tree: &HostRoot, directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find(|path| matches!(tree.metadata(path), Known::Value(_))).map(Path::to_owned)
}
