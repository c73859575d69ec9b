//! podman 4 with Silkrail's plugins as its network: later versions do not call CNI plugins.
//!
//! `hack/test` unpacks it into `target/tools/podman`; nothing is installed.

use std::{fs, path::Path, process::Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::{containerd::image, runtime_namespaces::RuntimeNamespaces, tools::tools};

/// The image of the containers: a program that sleeps.
const IMAGE: &str = "localhost/sleep:1";

/// An installation of podman with one network. Its containers end when this value is dropped.
#[derive(Debug)]
pub struct Podman {
    namespaces: RuntimeNamespaces,
    directory: TempDir,
}

impl Podman {
    /// Prepares podman with this network (a conflist) as the default one.
    ///
    /// # Panics
    /// If podman is not unpacked.
    pub fn with_network(plugins: &Path, network: &Value) -> Self {
        let directory = tempfile::Builder::new().prefix("p").tempdir_in("/run").unwrap();
        let below = |name: &str| directory.path().join(name);
        fs::create_dir(below("net.d")).unwrap();
        fs::write(below("net.d/10-rail.conflist"), network.to_string()).unwrap();
        let name = network["name"].as_str().unwrap();
        fs::write(below("containers.conf"), configuration(directory.path(), plugins, name)).unwrap();
        fs::write(below("policy.json"), r#"{"default": [{"type": "insecureAcceptAnything"}]}"#).unwrap();
        fs::write(below("sleep.tar"), image(IMAGE)).unwrap();
        let podman = Self { namespaces: RuntimeNamespaces::new(), directory };
        let [policy, archive] = ["policy.json", "sleep.tar"].map(|name| podman.path(name));
        podman.ok(&["load", "--signature-policy", &policy, "--input", &archive]);
        podman
    }

    /// Starts a container of this name, with more options of `podman run`.
    ///
    /// # Errors
    /// podman's message.
    ///
    /// # Panics
    /// If podman does not start.
    pub fn start(&self, name: &str, options: &[&str]) -> Result<(), String> {
        let fixed = ["run", "--detach", "--pull=never", "--name", name];
        let output = self.run(&[&fixed, options, &[IMAGE]].concat());
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Runs a command of podman, which must succeed, and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the address of a container, as podman reports it.
    ///
    /// # Panics
    /// If there is no such container.
    pub fn address(&self, name: &str) -> String {
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        self.ok(&["inspect", "--format", format, name]).trim().to_owned()
    }

    fn run(&self, args: &[&str]) -> Output {
        let tools = tools("podman", "podman");
        self.namespaces
            .command(tools.join("podman"))
            .env("LD_LIBRARY_PATH", &tools)
            .env("CONTAINERS_CONF", self.path("containers.conf"))
            .args(["--root", &self.path("root"), "--runroot", &self.path("runroot"), "--storage-driver=vfs"])
            .args(args)
            .output()
            .unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

fn configuration(directory: &Path, plugins: &Path, network: &str) -> String {
    let [conmon, runc] =
        [("podman", "conmon"), ("runc", "runc")].map(|(of, name)| tools(of, name).join(name));
    let [conmon, runc, directory, plugins] =
        [&conmon, &runc, directory, plugins].map(|path| path.display().to_string());
    format!(
        r#"[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
conmon_path = ["{conmon}"]
tmp_dir = "{directory}/tmp"
static_dir = "{directory}/static"
volume_path = "{directory}/volumes"
[engine.runtimes]
runc = ["{runc}"]
[containers]
apparmor_profile = ""
seccomp_profile = "unconfined"
pids_limit = 0
[network]
network_backend = "cni"
cni_plugin_dirs = ["{plugins}"]
network_config_dir = "{directory}/net.d"
default_network = "{network}"
"#
    )
}
