//! Pods as the kubelet and the container runtime represent them on a node: a cgroup, and a directory for logs.
//!
//! The tests run without a kubelet. The layout is that of the systemd cgroup driver and containerd.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use testkit::wait_until;

use crate::rxe::RxeProgram;

const CGROUPS: &str = "/sys/fs/cgroup";

/// The cgroup and the log directory of a pod, for as long as this value lives.
#[derive(Debug)]
pub struct KubePod {
    /// Kubernetes namespace.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
    slice: PathBuf,
    logs: PathBuf,
}

impl KubePod {
    /// Creates a pod without processes.
    ///
    /// # Panics
    /// If its directories cannot be created.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        let slice = format!("kubepods.slice/kubepods-pod{}.slice", uid.replace('-', "_"));
        let slice = Path::new(CGROUPS).join(slice);
        let logs = PathBuf::from(format!("/var/log/pods/{namespace}_{name}_{uid}"));
        fs::create_dir_all(slice.join(container(uid))).unwrap();
        fs::create_dir_all(&logs).unwrap();
        Self { namespace: namespace.into(), name: name.into(), uid: uid.into(), slice, logs }
    }

    /// Returns the `CNI_ARGS` that a runtime passes for the pod.
    pub fn cni_args(&self) -> String {
        let Self { namespace, name, uid, .. } = self;
        format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};K8S_POD_UID={uid}")
    }

    /// Returns the labels of the pod's series.
    pub fn labels(&self) -> [(&str, &str); 2] {
        [("pod_namespace", &self.namespace), ("pod_name", &self.name)]
    }

    /// Returns the path of the pod's cgroup.
    pub fn cgroup(&self) -> &Path {
        &self.slice
    }

    /// Starts a program in the cgroup of the pod's container.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn run(&self, program: &str, arguments: &[&str]) -> RxeProgram {
        let procs = self.slice.join(container(&self.uid)).join("cgroup.procs");
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(&procs).arg(program).args(arguments);
        let program = RxeProgram::spawn(&mut command);
        let pid = program.pid().to_string();
        wait_until("the program is in its cgroup", || {
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
        wait_until("the cgroup is empty", || {
            let _ = fs::remove_dir(self.slice.join(container(&self.uid)));
            let _ = fs::remove_dir(&self.slice);
            !self.slice.exists() || std::thread::panicking()
        });
    }
}
