//! containerd with Silkrail's plugins as its network: version 2, from a newer Debian release, and 1.6, from Debian 12.
//!
//! `hack/test` unpacks both into `target/tools`; nothing is installed.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::{cri::Cri, runtime_namespaces::RuntimeNamespaces, tools::tools};

/// The image of pod sandboxes.
const PAUSE: &str = "localhost/pause:1";

/// A release of containerd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It calls STATUS and GC, and its configuration has version 3.
    Two,
    /// Its libcni knows CNI up to 1.0.0, it needs a loopback plugin, and its configuration has version 2.
    OneSix,
}

/// A running containerd. It ends when this value is dropped, and so do its sandboxes.
#[derive(Debug)]
pub struct Containerd {
    release: Release,
    process: Child,
    /// A CRI client, as in the kubelet.
    pub cri: Cri,
    namespaces: RuntimeNamespaces,
    directory: TempDir,
}

impl Containerd {
    /// Starts containerd with this network (a conflist) for all pods.
    ///
    /// # Panics
    /// If containerd is not unpacked, or does not serve.
    pub fn with_network(release: Release, plugins: &Path, network: &Value) -> Self {
        // The path of a Unix socket is limited to 107 bytes.
        let directory = tempfile::Builder::new().prefix("c").tempdir_in("/run").unwrap();
        let below = |name: &str| directory.path().join(name);
        fs::create_dir(below("net.d")).unwrap();
        fs::write(below("net.d/10-rail.conflist"), network.to_string()).unwrap();
        fs::write(below("config.toml"), release.configuration(directory.path(), plugins)).unwrap();
        write_script(
            &below("runc"),
            &RUNC.replace("RUNC", &tools("runc", "runc").join("runc").display().to_string()),
        );
        if release == Release::OneSix {
            symlink("/usr/lib/cni/loopback", plugins.join("loopback")).unwrap();
        }
        let namespaces = RuntimeNamespaces::new();
        let process = start(release, &namespaces, directory.path());
        let cri = connect(&below("socket"), &below("log"));
        let containerd = Self { release, process, cri, namespaces, directory };
        containerd.import_pause();
        containerd
    }

    /// Kills containerd. Its sandboxes remain, and so do plugins that are running.
    ///
    /// # Panics
    /// If it has ended before.
    pub fn kill(&mut self) {
        assert_eq!(self.process.try_wait().unwrap(), None, "{}", self.log());
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts containerd again, with the same directories.
    ///
    /// # Panics
    /// If it does not serve.
    pub fn restart(&mut self) {
        self.process = start(self.release, &self.namespaces, self.directory.path());
        self.cri = self.another_client();
    }

    /// Returns another CRI client, for another thread.
    ///
    /// # Panics
    /// If containerd does not serve.
    pub fn another_client(&self) -> Cri {
        connect(&self.socket(), &self.directory.path().join("log"))
    }

    /// Returns the socket of the CRI.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Returns the path outside of its namespaces of a file in them, which is absolute.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.namespaces.path(inside)
    }

    /// Returns a command that will run where containerd mounts the network namespaces of sandboxes.
    pub fn command(&self, program: &str) -> Command {
        self.namespaces.command(program)
    }

    /// Returns the log of containerd.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    fn import_pause(&self) {
        let archive = self.directory.path().join("pause.tar");
        fs::write(&archive, image(PAUSE)).unwrap();
        let mut ctr = Command::new(self.release.tools().join("ctr"));
        ctr.arg("--address").arg(self.socket()).args(["--namespace", "k8s.io", "images", "import"]);
        if self.release == Release::Two {
            ctr.arg("--local");
        }
        let output = ctr.args(["--snapshotter", "native"]).arg(archive).output().unwrap();
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), self.log());
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(release: Release, namespaces: &RuntimeNamespaces, directory: &Path) -> Child {
    let tools = release.tools();
    let log = fs::File::options().create(true).append(true).open(directory.join("log")).unwrap();
    let mut containerd = namespaces.command(tools.join("containerd"));
    containerd.arg("--config").arg(directory.join("config.toml"));
    containerd.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", tools.display()));
    containerd.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null()).spawn().unwrap()
}

fn connect(socket: &Path, log: &Path) -> Cri {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match Cri::connect(socket) {
            // The socket listens before all plugins of containerd are started.
            Ok(cri) if cri.conditions().is_ok() => return cri,
            _ if Instant::now() < deadline => thread::sleep(Duration::from_millis(100)),
            _ => panic!("containerd does not serve: {}", fs::read_to_string(log).unwrap()),
        }
    }
}

impl Release {
    fn tools(self) -> PathBuf {
        match self {
            Self::Two => tools("containerd", "containerd"),
            Self::OneSix => tools("containerd-1.6", "containerd"),
        }
    }

    fn configuration(self, directory: &Path, plugins: &Path) -> String {
        let text = match self {
            Self::Two => TWO,
            Self::OneSix => ONE_SIX,
        };
        let common = COMMON.replace("DIRECTORY", &directory.display().to_string());
        let text = text.replace("DIRECTORY", &directory.display().to_string());
        common + &text.replace("PLUGINS", &plugins.display().to_string()).replace("PAUSE", PAUSE)
    }
}

/// Starts runc without a CPU weight for the sandbox: the machine's cgroups may have no controller for it.
const RUNC: &str = r#"#!/bin/sh
for arg; do
  [ "$last" != --bundle ] || { jq 'del(.linux.resources.cpu)' "$arg/config.json" >"$arg/new" && mv "$arg/new" "$arg/config.json"; }
  last=$arg
done
exec RUNC "$@"
"#;

fn write_script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The keys that both versions have.
const COMMON: &str = r#"
root = "DIRECTORY/root"
state = "DIRECTORY/state"
disabled_plugins = ["io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing"]
"#;

const TWO: &str = r#"version = 3
[grpc]
  address = "DIRECTORY/socket"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "PAUSE"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      snapshotter = "native"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "DIRECTORY/runc"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["PLUGINS"]
    conf_dir = "DIRECTORY/net.d"
    use_internal_loopback = true
"#;

const ONE_SIX: &str = r#"version = 2
[grpc]
  address = "DIRECTORY/socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "DIRECTORY/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "PLUGINS"
    conf_dir = "DIRECTORY/net.d"
"#;

/// Returns an image with a program that sleeps, as a docker archive.
pub(crate) fn image(name: &str) -> Vec<u8> {
    let layer = archive(&[("bin/busybox", 0o755, fs::read("/bin/busybox").unwrap())]);
    let diff = Sha256::digest(&layer).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let config = json!({
        "architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z",
        "config": {"Entrypoint": ["/bin/busybox", "sleep", "100000"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff}")]},
        "history": [{"created": "1970-01-01T00:00:00Z"}],
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
    archive(&[
        ("manifest.json", 0o644, manifest.to_string().into_bytes()),
        ("config.json", 0o644, config.to_string().into_bytes()),
        ("layer.tar", 0o644, layer),
    ])
}

fn archive(files: &[(&str, u32, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, mode, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(*mode);
        archive.append_data(&mut header, name, content.as_slice()).unwrap();
    }
    archive.into_inner().unwrap()
}
