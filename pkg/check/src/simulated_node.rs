//! A simulated node for tests: a copy of a sysfs tree with RDMA devices, and a perftest that is played by a script.

use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use sysfs::Sysfs;

use crate::{Interrupt, local_end::LocalContext, perftest::Launcher};

/// Writes an executable script. Another process writes it: if this one had it open while another test starts a process, the
/// script could not be executed until that process has executed its own program ("Text file busy").
pub(crate) fn write_program(path: &Path, script: &str) {
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(path);
    let mut writer = writer.stdin(Stdio::piped()).spawn().unwrap();
    writer.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

/// A directory with the tree and the programs.
#[derive(Debug)]
pub(crate) struct SimulatedNode {
    dir: tempfile::TempDir,
}

impl SimulatedNode {
    pub(crate) fn new() -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(node.path("sys/class/infiniband")).unwrap();
        fs::create_dir_all(node.path("bin")).unwrap();
        node
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    pub(crate) fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.path("sys"))
    }

    /// Adds a RoCE port of 400 Gb/s with an address of the loopback interface.
    pub(crate) fn port(&self, device: &str, pci: &str, address: &str) {
        let address: std::net::Ipv4Addr = address.parse().unwrap();
        let function = self.path(&format!("sys/devices/pci0000:00/{pci}"));
        let port = function.join(format!("infiniband/{device}/ports/1"));
        for dir in ["gids", "gid_attrs/types", "gid_attrs/ndevs", "counters"] {
            fs::create_dir_all(port.join(dir)).unwrap();
        }
        let files = [
            ("state", "4: ACTIVE".to_owned()),
            ("link_layer", "Ethernet".to_owned()),
            ("rate", "400 Gb/sec (4X NDR)".to_owned()),
            ("gids/0", address.to_ipv6_mapped().segments().map(|part| format!("{part:04x}")).join(":")),
            ("gid_attrs/types/0", "RoCE v2".to_owned()),
            ("gid_attrs/ndevs/0", "lo".to_owned()),
        ];
        for (file, text) in files {
            fs::write(port.join(file), format!("{text}\n")).unwrap();
        }
        fs::write(function.join("numa_node"), "0\n").unwrap();
        symlink(&function, function.join(format!("infiniband/{device}/device"))).unwrap();
        let class = self.path("sys/class/infiniband").join(device);
        symlink(function.join(format!("infiniband/{device}")), class).unwrap();
    }

    /// Sets the state of a device's port, for example `1: DOWN`.
    pub(crate) fn set_state(&self, device: &str, state: &str) {
        fs::write(self.path(&format!("sys/class/infiniband/{device}/ports/1/state")), state).unwrap();
    }

    /// Makes a device one of a VF.
    pub(crate) fn make_vf(&self, device: &str) {
        symlink("..", self.path(&format!("sys/class/infiniband/{device}/device/physfn"))).unwrap();
    }

    /// Installs a program of perftest, played by a script.
    pub(crate) fn program(&self, name: &str, script: &str) {
        write_program(&self.path("bin").join(name), script);
    }

    pub(crate) fn bin(&self) -> PathBuf {
        self.path("bin")
    }

    pub(crate) fn context(&self) -> LocalContext {
        LocalContext {
            launcher: Launcher {
                path: Path::new(&self.bin()).into(),
                wrapper: Vec::new(),
                versions: Default::default(),
            },
            sysfs: self.sysfs(),
            interrupt: Interrupt::never(),
            ports_in_use: Arc::default(),
        }
    }
}
