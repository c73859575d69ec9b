//! A pod: a network namespace that has a path.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    thread,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};

/// A network namespace bound to a file, as container runtimes make them. It ends with this value.
#[derive(Debug)]
pub struct Pod {
    path: PathBuf,
}

impl Pod {
    /// Makes a namespace and binds it to `path`.
    pub(crate) fn make(path: PathBuf) -> Self {
        File::create_new(&path).unwrap();
        let binding = path.clone();
        // The thread is the namespace's first user; then the file is the only one.
        let bound = thread::spawn(move || {
            #[expect(clippy::disallowed_methods, reason = "this thread ends here")]
            unshare(CloneFlags::CLONE_NEWNET)?;
            mount(Some("/proc/thread-self/ns/net"), &binding, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        });
        bound.join().unwrap().expect("make a network namespace (root is required)");
        Self { path }
    }

    /// The path, for `CNI_NETNS`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the namespace, as a runtime does before a late DEL. Its path is what remains.
    pub fn end(self) -> PathBuf {
        self.path.clone()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
        let _ = fs::remove_file(&self.path);
    }
}
