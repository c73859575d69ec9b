//! A node: where plugins run.

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

/// A node: its network namespace is the calling thread's, and so is that of every process it starts.
#[derive(Debug)]
pub struct TestNode {
    binaries: Binaries,
    home: PathBuf,
    /// On the machine's own file system, to be removed.
    _temporary: Option<TempDir>,
}

impl TestNode {
    /// Gives the calling thread a network namespace and a mount namespace of its own, with its own `/sys` and
    /// an empty `/run` and `/var/log`. They end with the thread; the machine sees nothing of them.
    ///
    /// # Panics
    /// Without root.
    #[expect(clippy::new_without_default, reason = "it changes the calling thread")]
    pub fn new() -> Self {
        require_root();
        let binaries = Binaries::find();
        #[expect(clippy::disallowed_methods, reason = "the test's thread is the node, to its end")]
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        // A sysfs shows the network namespace of whoever mounts it.
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none).unwrap();
        mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), Some("mode=755")).unwrap();
        mount(Some("tmpfs"), "/var/log", Some("tmpfs"), MsFlags::empty(), Some("mode=755")).unwrap();
        let node = Self { binaries, home: "/run/testkit".into(), _temporary: None };
        node.furnish();
        node.run_ip("link set lo up");

        node
    }

    /// The machine itself, for tests of devices that cannot be in two places. By one test at a time.
    ///
    /// # Panics
    /// Without root.
    pub fn of_this_machine() -> Self {
        require_root();
        let temporary = tempfile::Builder::new().prefix("silkrail-test-").tempdir_in("/run").unwrap();
        let home = temporary.path().to_owned();
        let node = Self { binaries: Binaries::find(), home, _temporary: Some(temporary) };
        node.furnish();
        node
    }

    fn furnish(&self) {
        for dir in ["netns", "state", "ipam"] {
            fs::create_dir_all(self.home.join(dir)).unwrap();
        }
    }

    /// Makes a pod. It is known by its name in snapshots.
    pub fn pod(&self, name: &str) -> TestPod {
        TestPod::make(self.home.join("netns").join(name))
    }

    /// Makes a pod whose network namespace belongs to a user namespace of its own, as with `hostUsers: false`.
    pub fn pod_in_a_user_namespace(&self, name: &str) -> TestPod {
        TestPod::make_in_a_user_namespace(
            self.home.join("netns").join(name),
            self.home.join(format!("user-{name}")),
        )
    }

    /// A call of a plugin, about no pod yet; its configuration will get the node's `stateDir`.
    pub fn plugin(&self, name: &str) -> Call {
        Call::new(&self.binaries, name).state_dir(&self.state_dir())
    }

    /// The directory with the plugins.
    pub fn cni_path(&self) -> &Path {
        self.binaries.dir()
    }

    /// Where the plugins keep their state.
    pub fn state_dir(&self) -> PathBuf {
        self.home.join("state")
    }

    /// A path for a `logFile`, in a directory that goes with the node: plugins write logs where logs are, and nowhere else.
    pub fn log_file(&self, name: &str) -> PathBuf {
        let dir = self.log_dir();
        fs::create_dir_all(&dir).unwrap();
        dir.join(name)
    }

    fn log_dir(&self) -> PathBuf {
        Path::new("/var/log").join(self.home.file_name().unwrap_or_default())
    }

    /// The namespaces' files.
    pub(crate) fn netns_dir(&self) -> PathBuf {
        self.home.join("netns")
    }

    /// A directory for a fake plugin.
    pub(crate) fn ipam_dir(&self, name: &str) -> PathBuf {
        let dir = self.home.join("ipam").join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// What there is on the node, in its pods and in the state directory.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(self)
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
}

fn require_root() {
    let root = geteuid().is_root();
    assert!(root, "these tests make network namespaces: run them as root (hack/test says how)");
}
