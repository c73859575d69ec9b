//! Pods as kubelet and the container runtime leave them on a node: a cgroup, and a directory for logs.
//!
//! There is no kubelet here. The layout is that of systemd's cgroup driver and containerd.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use testkit::wait_until;

use crate::rxe::RxeProgram;

const CGROUPS: &str = "/sys/fs/cgroup";

/// A pod of this machine, for as long as this value lives.
#[derive(Debug)]
pub struct KubePod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    slice: PathBuf,
    logs: PathBuf,
}

impl KubePod {
    /// A pod without processes.
    ///
    /// # Panics
    /// If its directories cannot be made.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        let slice = format!("kubepods.slice/kubepods-pod{}.slice", uid.replace('-', "_"));
        let slice = Path::new(CGROUPS).join(slice);
        let logs = PathBuf::from(format!("/var/log/pods/{namespace}_{name}_{uid}"));
        fs::create_dir_all(slice.join(container(uid))).unwrap();
        fs::create_dir_all(&logs).unwrap();
        Self { namespace: namespace.into(), name: name.into(), uid: uid.into(), slice, logs }
    }

    /// The `CNI_ARGS` by which a runtime tells a plugin of it.
    pub fn cni_args(&self) -> String {
        let Self { namespace, name, uid, .. } = self;
        format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};K8S_POD_UID={uid}")
    }

    /// The labels of its series.
    pub fn labels(&self) -> [(&str, &str); 2] {
        [("pod_namespace", &self.namespace), ("pod_name", &self.name)]
    }

    /// Its cgroup.
    pub fn cgroup(&self) -> &Path {
        &self.slice
    }

    /// Runs a program in it.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn run(&self, program: &str, arguments: &[&str]) -> RxeProgram {
        let procs = self.slice.join(container(&self.uid)).join("cgroup.procs");
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(&procs).arg(program).args(arguments);
        let program = RxeProgram::spawn(&mut command);
        let pid = program.pid().to_string();
        wait_until("it is in its cgroup", || {
            fs::read_to_string(&procs).unwrap_or_default().lines().any(|line| line == pid)
        });
        program
    }
}

fn container(uid: &str) -> String {
    format!("cri-containerd-{}.scope", uid.replace('-', "").repeat(2))
}

impl Drop for KubePod {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.logs);
        // The cgroup of a process that has just ended is busy for a moment.
        wait_until("its cgroup is empty", || {
            let _ = fs::remove_dir(self.slice.join(container(&self.uid)));
            let _ = fs::remove_dir(&self.slice);
            !self.slice.exists() || std::thread::panicking()
        });
    }
}
