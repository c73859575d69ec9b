//! The RDMA ports of a copy of a sysfs tree. The kernel is asked about its own tree only; a copy is described as it is.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nix::sys::statfs::{SYSFS_MAGIC, statfs};
use rdma::{LinkLayer, PhysState, Port, PortState};
use sysfs::Sysfs;

/// Whether this tree is a copy, and not the kernel's.
pub(crate) fn is_copy(sysfs: &Sysfs) -> bool {
    statfs(sysfs.root()).is_ok_and(|found| found.filesystem_type() != SYSFS_MAGIC)
}

/// Returns the ports of the devices of a copy, in the order of their names.
pub(crate) fn ports(sysfs: &Sysfs) -> Vec<Port> {
    let mut found = Vec::new();
    for device in directories(&sysfs.root().join("class/infiniband")) {
        for port in directories(&device.join("ports")) {
            found.extend(describe(&device, &port));
        }
    }
    found
}

fn describe(device: &Path, port: &Path) -> Option<Port> {
    let text = |file: &str| fs::read_to_string(port.join(file)).unwrap_or_default();
    let is_active = text("state").contains("ACTIVE");
    let link = fs::read_to_string(port.join("gid_attrs/ndevs/0")).ok();
    Some(Port {
        device: 0,
        device_name: device.file_name()?.to_str()?.to_owned(),
        port: port.file_name()?.to_str()?.parse().ok()?,
        state: if is_active { PortState::Active } else { PortState::Down },
        phys_state: PhysState::Other(0),
        link: None,
        link_name: link.map(|name| name.trim().to_owned()),
        link_layer: match text("link_layer").trim() {
            "InfiniBand" => LinkLayer::InfiniBand,
            _ => LinkLayer::Ethernet,
        },
    })
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}
