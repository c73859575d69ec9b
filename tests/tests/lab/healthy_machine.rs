//! A machine in which `silkrail doctor` finds no fault; tests plant faults in it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::Value;
use silkrail_tests::{
    cli::{self, CommandOutput},
    machine::LabMachine,
};
use testkit::{Observe, wait_until};

/// A machine with everything that `silkrail doctor` checks.
pub(crate) struct HealthyMachine<'a> {
    pub(crate) machine: &'a LabMachine,
    pub(crate) dir: tempfile::TempDir,
    cni: PathBuf,
    /// The findings without a planted fault: `info` only, as `severity id object`.
    pub(crate) baseline: Vec<String>,
}

impl<'a> HealthyMachine<'a> {
    pub(crate) fn new(machine: &'a LabMachine) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cni = dir.path().join("cni");
        fs::create_dir(&cni).unwrap();
        // A real executable has megabytes, which each run would read; only `plugins` installs one.
        let executable = dir.path().join("silkrail-cni");
        write(&executable, concat!("\x7fELF silkrail-cni ", env!("CARGO_PKG_VERSION"), "\n"));
        chmod(&executable, 0o755);
        for name in ["macvlan", "rdma", "silkrail-ipam", "sriov"] {
            fs::hard_link(&executable, cni.join(name)).unwrap();
        }
        Self::with_plugins(machine, dir, cni)
    }

    /// A machine with the plugins of the build, which the doctor calls.
    pub(crate) fn with_real_plugins(machine: &'a LabMachine) -> Self {
        Self::with_plugins(machine, tempfile::tempdir().unwrap(), machine.node.cni_path().to_owned())
    }

    fn with_plugins(machine: &'a LabMachine, dir: tempfile::TempDir, cni: PathBuf) -> Self {
        machine.node.run("modprobe", &["rdma_ucm"]);
        wait_until("RDMA-CM has its device node", || Path::new("/dev/infiniband/rdma_cm").exists());
        for pf in [0, 1] {
            let state = format!("/sys/class/infiniband/mlx5_{pf}/ports/1/state");
            wait_until("the PFs' ports are active", || read(&state).contains("ACTIVE"));
        }
        let mut this = Self { machine, dir, cni, baseline: Vec::new() };
        this.baseline = this.found();
        this
    }

    pub(crate) fn cni(&self) -> PathBuf {
        self.cni.clone()
    }

    pub(crate) fn doctor(&self, args: &str) -> CommandOutput {
        let state = self.machine.node.state_dir();
        cli::silkrail(&format!(
            "doctor --state-dir {} --cni-bin {} {args}",
            state.display(),
            self.cni().display()
        ))
    }

    /// Returns `severity id object` of each finding.
    pub(crate) fn found(&self) -> Vec<String> {
        let ran = self.doctor("--json");
        let report = ran.json();
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
        let found: Vec<String> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| ["severity", "id", "object"].map(|key| text(finding, key)).join(" "))
            .collect();
        let has_error = found.iter().any(|finding| finding.starts_with("error"));
        assert_eq!(ran.code, Some(if has_error { 6 } else { 0 }), "{found:?}");
        found
    }

    /// Plants a fault, and checks that it adds exactly these findings; other findings of severity `info` are ignored.
    pub(crate) fn has(&self, expected: &[&str], plant: impl FnOnce(), repair: impl FnOnce()) {
        plant();
        let mut found = self.found();
        found.retain(|finding| !self.baseline.contains(finding));
        // A fault may also change findings of severity `info`.
        found.retain(|finding| !finding.starts_with("info") || expected.contains(&finding.as_str()));
        assert_eq!(found, expected);
        repair();
    }

    pub(crate) fn is_healthy(&self) {
        assert_eq!(self.found(), self.baseline);
    }
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

pub(crate) fn write(path: impl AsRef<Path>, text: &str) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(crate) fn remove(path: impl AsRef<Path>) {
    fs::remove_file(path).unwrap();
}

pub(crate) fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
