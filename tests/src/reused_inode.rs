//! Pods whose namespaces reuse an inode number.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    thread,
    time::{Duration, Instant},
};

use testkit::{TestNode, TestPod};

/// Returns the inode number of a pod's namespace.
///
/// # Panics
/// If the namespace does not exist.
pub fn number(pod: &TestPod) -> u64 {
    fs::metadata(pod.path()).unwrap().ino()
}

/// Creates a pod whose namespace has the inode number of a deleted namespace. The kernel assigns the lowest free number, which
/// concurrent tests may take for a while.
///
/// # Panics
/// If no namespace gets the number within a minute.
pub fn with_number(node: &TestNode, wanted: u64) -> TestPod {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        let mut others = Vec::new();
        for n in 0..16 {
            let pod = node.pod(&format!("again{n}"));
            if number(&pod) == wanted {
                return pod;
            }
            others.push(pod);
        }
        drop(others);
        thread::sleep(Duration::from_millis(20));
    }
    panic!("no namespace got the number {wanted} again");
}
