//! A pod: a network namespace that has a path.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};

/// A network namespace bound to a file, as container runtimes make them. It ends with this value.
#[derive(Debug)]
pub struct TestPod {
    path: PathBuf,
    /// The user namespace that owns it, if that is not the machine's.
    user: Option<PathBuf>,
}

impl TestPod {
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
        Self { path, user: None }
    }

    /// Makes a namespace that belongs to a user namespace of its own, in which root is the machine's root, and binds both to
    /// files.
    pub(crate) fn make_in_a_user_namespace(path: PathBuf, user: PathBuf) -> Self {
        let mut first = Command::new("unshare");
        first.args(["--user", "--map-root-user", "--net", "sh", "-c", "echo ready; exec cat"]);
        let mut first = first.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare");
        let mut said = String::new();
        let output = first.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut said).expect("it is inside");
        for (kind, binding) in [("net", &path), ("user", &user)] {
            File::create_new(binding).unwrap();
            let namespace = format!("/proc/{}/ns/{kind}", first.id());
            mount(Some(&*namespace), binding, None::<&str>, MsFlags::MS_BIND, None::<&str>)
                .expect("make a user namespace (root is required)");
        }
        drop(first.stdin.take());
        first.wait().expect("it ends with its input");
        Self { path, user: Some(user) }
    }

    /// The user namespace that owns it, if that is not the machine's.
    pub(crate) fn user(&self) -> Option<&Path> {
        self.user.as_deref()
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

impl Drop for TestPod {
    fn drop(&mut self) {
        for path in [Some(&self.path), self.user.as_ref()].into_iter().flatten() {
            let _ = umount2(path, MntFlags::MNT_DETACH);
            let _ = fs::remove_file(path);
        }
    }
}
