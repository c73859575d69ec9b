//! A simulated node for tests: a copy of a sysfs tree with RDMA devices, and a perftest that is played by a script.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
};

use sysfs::Sysfs;

use crate::{Interrupt, local_end::LocalContext, perftest::Launcher};

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
        let path = self.path("bin").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
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
