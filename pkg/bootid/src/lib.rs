//! The ID of the current boot: what was written before a reboot is told from what was written after it.
//!
//! # Kernel
//! `/proc/sys/kernel/random/boot_id`: a random UUID of 36 characters, the same for all containers of a node.

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::OnceLock,
};

/// The file, relative to the root directory of a node.
pub const FILE: &str = "proc/sys/kernel/random/boot_id";

/// Returns the ID of the current boot, for example `5f1c9c4e-8a0b-4a27-9c55-2f4de9b8e2b1`. The file is read once in a process.
///
/// # Errors
/// If the file cannot be read.
pub fn current() -> io::Result<&'static str> {
    static ID: OnceLock<String> = OnceLock::new();
    if let Some(id) = ID.get() {
        return Ok(id);
    }
    let id = below(Path::new("/"))?;
    Ok(ID.get_or_init(|| id))
}

/// Returns the boot ID of the node whose root directory is `root`, for example `/host` in a container.
///
/// # Errors
/// If the file cannot be read.
pub fn below(root: &Path) -> io::Result<String> {
    // The kernel returns the whole file to one read(2).
    let mut text = [0; 64];
    let length = File::open(root.join(FILE))?.read(&mut text)?;
    Ok(String::from_utf8_lossy(text.get(..length).unwrap_or_default()).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_current_id_is_that_of_the_root_directory() {
        assert_eq!(current().unwrap(), below(Path::new("/")).unwrap());
        assert_eq!(current().unwrap().len(), 36);
    }

    #[test]
    fn a_missing_file_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(below(root.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn each_root_directory_has_the_id_of_its_node_and_may_boot_again() {
        let (host, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let boot = |root: &Path, id: &str| {
            fs::create_dir_all(root.join(FILE).parent().unwrap()).unwrap();
            fs::write(root.join(FILE), format!("{id}\n")).unwrap();
        };
        let ids = ["5f1c9c4e-8a0b-4a27-9c55-2f4de9b8e2b1", "01234567-89ab-4def-8123-456789abcdef"];
        boot(host.path(), ids[0]);
        boot(other.path(), ids[1]);
        assert_eq!([host.path(), other.path()].map(|root| below(root).unwrap()), ids);
        boot(host.path(), ids[1]);
        assert_eq!(below(host.path()).unwrap(), ids[1], "a restarted container sees the next boot");
    }
}
