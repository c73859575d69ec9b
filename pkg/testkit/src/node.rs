//! A test node, on which plugins are called.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    unistd::geteuid,
};
use tempfile::TempDir;

use crate::{Binaries, Call, Observe, Snapshot, TestPod};

/// A test node. Its network namespace is that of the calling thread, and of every process that the thread starts.
#[derive(Debug)]
pub struct TestNode {
    binaries: Binaries,
    dir: PathBuf,
    /// The directory on the machine's file system, which is removed with the node.
    _temporary: Option<TempDir>,
}

impl TestNode {
    /// Moves the calling thread to a new network namespace and a new mount namespace, with its own `/sys` and
    /// an empty `/run` and `/var/log`. They end with the thread and are not visible on the machine.
    ///
    /// # Panics
    /// Without root privileges.
    #[expect(clippy::new_without_default, reason = "it changes the calling thread")]
    pub fn new() -> Self {
        require_root();
        let binaries = Binaries::find();
        #[expect(clippy::disallowed_methods, reason = "the test's thread is the node, to its end")]
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        // A sysfs shows the network namespace of the process that mounts it.
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none).unwrap();
        mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), Some("mode=755")).unwrap();
        mount(Some("tmpfs"), "/var/log", Some("tmpfs"), MsFlags::empty(), Some("mode=755")).unwrap();
        let node = Self { binaries, dir: "/run/silkrail-test".into(), _temporary: None };
        node.make_dirs();
        node.run_ip("link set lo up");

        node
    }

    /// Uses the machine itself as the node, for tests of devices that exist only once. Only one test at a time may do so.
    ///
    /// # Panics
    /// Without root privileges.
    pub fn of_this_machine() -> Self {
        require_root();
        let temporary = state_dir();
        let dir = temporary.path().to_owned();
        let node = Self { binaries: Binaries::find(), dir, _temporary: Some(temporary) };
        node.make_dirs();
        node
    }

    fn make_dirs(&self) {
        for dir in ["netns", "state", "ipam"] {
            fs::create_dir_all(self.dir.join(dir)).unwrap();
        }
    }

    /// Creates a pod. Snapshots list it under its name.
    pub fn pod(&self, name: &str) -> TestPod {
        TestPod::make(self.dir.join("netns").join(name))
    }

    /// Binds the network namespace of a pod to another file.
    pub fn pod_of(&self, pod: &TestPod, name: &str) -> TestPod {
        TestPod::bind(pod, self.dir.join("netns").join(name))
    }

    /// Creates a pod whose network namespace belongs to a user namespace of its own, as with `hostUsers: false`.
    pub fn pod_in_a_user_namespace(&self, name: &str) -> TestPod {
        TestPod::make_in_a_user_namespace(
            self.dir.join("netns").join(name),
            self.dir.join(format!("user-{name}")),
        )
    }

    /// Returns a call of a plugin, still without a pod; its configuration will get the node's `stateDir`.
    pub fn plugin(&self, name: &str) -> Call {
        Call::new(&self.binaries, name).state_dir(&self.state_dir())
    }

    /// Returns the directory with the plugins.
    pub fn cni_path(&self) -> &Path {
        self.binaries.dir()
    }

    /// Returns the plugins' state directory.
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// Returns a path for a `logFile`, in a directory below `/var/log` that is removed with the node: plugins write log
    /// files only there.
    pub fn log_file(&self, name: &str) -> PathBuf {
        let dir = self.log_dir();
        fs::create_dir_all(&dir).unwrap();
        dir.join(name)
    }

    fn log_dir(&self) -> PathBuf {
        Path::new("/var/log").join(self.dir.file_name().unwrap_or_default())
    }

    /// Returns the directory of the pods' namespace files.
    pub(crate) fn netns_dir(&self) -> PathBuf {
        self.dir.join("netns")
    }

    /// Creates a directory for a fake plugin and returns its path.
    pub(crate) fn ipam_dir(&self, name: &str) -> PathBuf {
        let dir = self.dir.join("ipam").join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Records the state of the node, its pods and the state directory.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.netns_dir(), &self.state_dir())
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.log_dir());
    }
}

impl Observe for TestNode {
    fn command(&self, program: &str) -> Command {
        Command::new(program)
    }

    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        work()
    }
}

/// Creates a directory that a configuration can have as its `stateDir`: a directory of silkrail in `/run`.
///
/// # Panics
/// Without root privileges.
pub fn state_dir() -> TempDir {
    tempfile::Builder::new().prefix("silkrail-test-").tempdir_in("/run").expect("root can write to /run")
}

fn require_root() {
    let root = geteuid().is_root();
    assert!(root, "these tests create network namespaces: run them as root (see hack/test)");
}
