//! The namespaces in which a container runtime and its containers run: they end with the test, however it ends.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use testkit::wait_until;

const CGROUPS: &str = "/sys/fs/cgroup";

/// Creates a cgroup, and with it as the root the namespaces. The first process of the PID namespace ends when its standard
/// input does; the kernel then kills the other ones. It ignores SIGCHLD, so that there are no zombies.
const HOLDER: &str = r#"
[ -e /sys/fs/cgroup/cgroup.procs ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$1/init"
echo $$ >"/sys/fs/cgroup/$1/cgroup.procs"
exec unshare --cgroup --mount --pid --fork --kill-child --mount-proc sh -ec '
  echo $$ >"/sys/fs/cgroup/$1/init/cgroup.procs"
  umount /sys/fs/cgroup
  # The cache of libcni and the locks of podman are not those of another test, nor of this machine.
  mkdir -p /var/lib/cni
  for dir in /var/lib/cni /dev/shm; do mount -t tmpfs tmpfs "$dir"; done
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  trap "" CHLD
  echo ready
  exec cat' sh "$1"
"#;

/// A PID, a mount and a cgroup namespace. The network namespace is that of the thread that creates it.
#[derive(Debug)]
pub struct RuntimeNamespaces {
    holder: Child,
    cgroup: PathBuf,
}

impl RuntimeNamespaces {
    /// Creates the namespaces.
    ///
    /// # Panics
    /// If the kernel does not support the second version of cgroups.
    #[expect(clippy::new_without_default, reason = "it starts a process")]
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("silkrail-test-{}-{number}", std::process::id());
        let mut holder = Command::new("sh");
        holder.args(["-ec", HOLDER, "sh", &name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the namespaces of a container runtime cannot be created");
        Self { holder, cgroup: Path::new(CGROUPS).join(name) }
    }

    /// Returns the path outside of the namespaces of a file in them, which is absolute.
    pub fn path(&self, inside: &str) -> PathBuf {
        format!("/proc/{}/root{inside}", self.holder.id()).into()
    }

    /// Returns a command that will run in the namespaces. If its process is killed, so is the program.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let holder = self.holder.id();
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={holder}")).args(["--mount", "--cgroup"]);
        command.arg(format!("--pid=/proc/{holder}/ns/pid_for_children"));
        command.args(["sh", "-c", "echo $$ >/sys/fs/cgroup/init/cgroup.procs; exec \"$@\"", "sh"]);
        command.args(["setpriv", "--pdeathsig=KILL"]).arg(program.as_ref());
        command
    }
}

impl Drop for RuntimeNamespaces {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        wait_until("the processes of the runtime ended", || remove(&self.cgroup));
    }
}

/// Removes a cgroup and those below it. Returns whether it is gone.
fn remove(cgroup: &Path) -> bool {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(cgroup);
    !cgroup.exists()
}
