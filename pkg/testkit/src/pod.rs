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

/// A network namespace bound to a file, as container runtimes create them. It is deleted when this value is dropped.
#[derive(Debug)]
pub struct TestPod {
    path: PathBuf,
    /// The user namespace that owns it, if that is not the machine's.
    user: Option<PathBuf>,
}

impl TestPod {
    /// Creates a namespace and binds it to `path`.
    pub(crate) fn make(path: PathBuf) -> Self {
        File::create_new(&path).unwrap();
        let binding = path.clone();
        // The thread keeps the namespace until it is bound to the file.
        let bound = thread::spawn(move || {
            #[expect(clippy::disallowed_methods, reason = "this thread ends here")]
            unshare(CloneFlags::CLONE_NEWNET)?;
            mount(Some("/proc/thread-self/ns/net"), &binding, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        });
        bound.join().unwrap().expect("create a network namespace (root is required)");
        Self { path, user: None }
    }

    /// Binds the namespace of another pod to `path`, too.
    pub(crate) fn bind(pod: &Self, path: PathBuf) -> Self {
        File::create_new(&path).unwrap();
        mount(Some(pod.path()), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("mount");
        Self { path, user: None }
    }

    /// Creates a namespace that belongs to a new user namespace, in which root is mapped to the machine's root, and binds
    /// both to files.
    pub(crate) fn make_in_a_user_namespace(path: PathBuf, user: PathBuf) -> Self {
        let mut holder = Command::new("unshare");
        holder.args(["--user", "--map-root-user", "--net", "sh", "-c", "echo ready; exec cat"]);
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare");
        let mut line = String::new();
        let output = holder.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it prints when it is inside");
        for (kind, binding) in [("net", &path), ("user", &user)] {
            File::create_new(binding).unwrap();
            let namespace = format!("/proc/{}/ns/{kind}", holder.id());
            mount(Some(&*namespace), binding, None::<&str>, MsFlags::MS_BIND, None::<&str>)
                .expect("create a user namespace (root is required)");
        }
        drop(holder.stdin.take());
        holder.wait().expect("it ends with its input");
        Self { path, user: Some(user) }
    }

    /// Returns the user namespace that owns it, if that is not the machine's.
    pub(crate) fn user(&self) -> Option<&Path> {
        self.user.as_deref()
    }

    /// Returns the path, for `CNI_NETNS`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes the namespace, as a runtime does before a late DEL, and returns its former path.
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
