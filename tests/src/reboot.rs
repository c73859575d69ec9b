//! A reboot, as far as files can tell.

use std::{fs, path::Path};

use testkit::TestNode;

const FORMER: &str = "00000000-0000-0000-0000-000000000000";

/// Has all state say that it was written before the last boot.
pub fn age(node: &TestNode) {
    let now = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let aged = age_below(&node.state_dir(), now.trim());
    assert!(aged > 0, "there is no state of this boot");
}

/// Names and contents; links are followed nowhere.
fn age_below(dir: &Path, now: &str) -> usize {
    let mut aged = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            aged += age_below(&path, now);
        } else if path.is_file() && !path.is_symlink() {
            // A map of addresses is no text, and tells of no boot.
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
