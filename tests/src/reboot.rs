//! A simulated reboot: the state files get the ID of another boot.

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::TestNode;

/// The ID of the simulated former boot.
pub const FORMER: &str = "00000000-0000-0000-0000-000000000000";

/// Returns the current boot ID.
///
/// # Panics
/// If `/proc/sys/kernel/random/boot_id` cannot be read.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

/// Returns the directory of the addresses that were allocated in this boot.
pub fn store(node: &TestNode) -> PathBuf {
    node.state_dir().join("ipam").join(boot_id())
}

/// Changes all state to that of a former boot.
///
/// # Panics
/// If there is no state of this boot.
pub fn age(node: &TestNode) {
    let aged = age_below(&node.state_dir(), &boot_id());
    assert!(aged > 0, "there is no state of this boot");
}

/// Replaces the boot ID in the names and contents of files, without following symbolic links. Returns the number of changes.
fn age_below(dir: &Path, now: &str) -> usize {
    let mut aged = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            aged += age_below(&path, now);
        } else if path.is_file() && !path.is_symlink() {
            // A map of addresses is binary, and contains no boot ID.
            let Ok(text) = fs::read_to_string(&path) else { continue };
            aged += usize::from(text.contains(now));
            fs::write(&path, text.replace(now, FORMER)).unwrap();
        }
        if path.ends_with(now) {
            fs::rename(&path, path.with_file_name(FORMER)).unwrap();
            aged += 1;
        }
    }
    aged
}
