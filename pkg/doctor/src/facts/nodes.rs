//! Character devices in `/dev/infiniband`.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use nix::sys::stat::{major, minor};
use serde::Serialize;

use crate::{Known, tree::Tree};

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Nodes {
    /// One for each `uverbsN` that the kernel has.
    pub(crate) uverbs: Vec<Node>,
    pub(crate) rdma_cm: Node,
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) path: String,
    /// What is there.
    pub(crate) file: Known<File>,
    /// The number that the kernel gave it, `231:192`.
    pub(crate) number: Known<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct File {
    pub(crate) is_device: bool,
    pub(crate) number: String,
    pub(crate) permissions: u32,
}

impl Nodes {
    pub(crate) fn read(tree: &Tree) -> Self {
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

fn node(tree: &Tree, name: &str, number: &str) -> Node {
    let path = format!("/dev/infiniband/{name}");
    let file = tree.metadata(&path).map(|meta| File {
        is_device: meta.file_type().is_char_device(),
        number: format!("{}:{}", major(meta.rdev()), minor(meta.rdev())),
        permissions: meta.mode() & 0o777,
    });
    Node { path, file, number: tree.text(number) }
}
