//! Character devices in `/dev/infiniband`.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use nix::sys::stat::{major, minor};
use serde::Serialize;

use crate::{Known, host_root::HostRoot};

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceNodes {
    /// One for each `uverbsN` that the kernel has.
    pub(crate) uverbs: Vec<DeviceNode>,
    pub(crate) rdma_cm: DeviceNode,
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceNode {
    pub(crate) path: String,
    /// The file at that path.
    pub(crate) file: Known<DeviceNodeFile>,
    /// The device number that the kernel assigned, from sysfs: `231:192`.
    pub(crate) number: Known<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceNodeFile {
    pub(crate) is_device: bool,
    pub(crate) number: String,
    pub(crate) permissions: u32,
}

impl DeviceNodes {
    pub(crate) fn read(tree: &HostRoot) -> Self {
        let names = tree.names("sys/class/infiniband_verbs");
        let uverbs = names.items().iter().filter(|name| name.starts_with("uverbs"));
        Self {
            uverbs: uverbs
                .map(|name| node(tree, name, &format!("sys/class/infiniband_verbs/{name}/dev")))
                .collect(),
            rdma_cm: node(tree, "rdma_cm", "sys/class/misc/rdma_cm/dev"),
        }
    }
}

fn node(tree: &HostRoot, name: &str, number: &str) -> DeviceNode {
    let path = format!("/dev/infiniband/{name}");
    let file = tree.metadata(&path).map(|meta| DeviceNodeFile {
        is_device: meta.file_type().is_char_device(),
        number: format!("{}:{}", major(meta.rdev()), minor(meta.rdev())),
        permissions: meta.mode() & 0o777,
    });
    DeviceNode { path, file, number: tree.text(number) }
}
