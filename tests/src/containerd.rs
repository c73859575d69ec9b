//! containerd 2, from a newer Debian release, with Silkrail's plugins as its network.
//!
//! `hack/test` unpacks it into `target/tools/containerd`; nothing is installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use testkit::Binaries;

use crate::cri::Cri;

/// The image of pod sandboxes.
const PAUSE: &str = "localhost/pause:1";

/// A running containerd, for as long as this value lives.
#[derive(Debug)]
pub struct Containerd {
    child: Child,
    directory: TempDir,
    /// A CRI client, as in the kubelet.
    pub cri: Cri,
}

impl Containerd {
    /// Starts containerd with this network (a conflist) for all pods.
    ///
    /// # Panics
    /// If containerd is not unpacked, or does not serve.
    pub fn with_network(plugins: &Binaries, network: &Value) -> Self {
        // The path of a Unix socket is limited to 107 bytes.
        let directory = tempfile::Builder::new().prefix("c").tempdir_in("/run").unwrap();
        let below = |name: &str| directory.path().join(name);
        fs::create_dir(below("net.d")).unwrap();
        fs::write(below("net.d/10-rail.conflist"), network.to_string()).unwrap();
        fs::write(below("config.toml"), configuration(directory.path(), plugins.dir())).unwrap();
        let log = fs::File::create(below("log")).unwrap();
        let child = Command::new(tools().join("containerd"))
            .arg("--config")
            .arg(below("config.toml"))
            .env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", tools().display()))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let cri = connect(&below("socket"), &below("log"));
        let containerd = Self { child, directory, cri };
        containerd.import_pause();
        containerd
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
        fs::write(&archive, image()).unwrap();
        let socket = self.directory.path().join("socket");
        let output = Command::new(tools().join("ctr"))
            .arg("--address")
            .arg(socket)
            .args(["--namespace", "k8s.io", "images", "import", "--local", "--snapshotter", "native"])
            .arg(archive)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), self.log());
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the directory into which `hack/test` unpacks containerd: tests are in `target/<profile>/deps`.
fn tools() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let tools = test.ancestors().nth(3).unwrap().join("tools/containerd");
    assert!(tools.join("containerd").is_file(), "{} has no containerd: run hack/test lab", tools.display());
    tools
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

/// Returns a configuration of version 3, the version of containerd 2.
fn configuration(directory: &Path, plugins: &Path) -> String {
    let [directory, plugins] = [directory, plugins].map(|path| path.display().to_string());
    format!(
        r#"version = 3
root = "{directory}/root"
state = "{directory}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{directory}/socket"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      snapshotter = "native"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{directory}/net.d"
    use_internal_loopback = true
"#
    )
}

/// Returns an image with a program that sleeps, as a docker archive.
fn image() -> Vec<u8> {
    let layer = archive(&[("bin/busybox", 0o755, fs::read("/bin/busybox").unwrap())]);
    let diff = Sha256::digest(&layer).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let config = json!({
        "architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z",
        "config": {"Entrypoint": ["/bin/busybox", "sleep", "100000"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff}")]},
        "history": [{"created": "1970-01-01T00:00:00Z"}],
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [PAUSE], "Layers": ["layer.tar"]}]);
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
