//! A namespace's inode number that comes again.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    thread,
    time::{Duration, Instant},
};

use testkit::{TestNode, TestPod};

/// The inode number of a pod's namespace.
///
/// # Panics
/// If it is gone.
pub fn number(pod: &TestPod) -> u64 {
    fs::metadata(pod.path()).unwrap().ino()
}

/// A new pod whose namespace has the number of one that has died. The kernel gives the lowest that is free; other tests
/// that make namespaces may be faster, and release it.
///
/// # Panics
/// If it does not come again.
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
