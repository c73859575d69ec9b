//! `silkrail pods`: the RDMA devices of the pods on this node.

use std::{
    fs,
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use podmap::{AttachMode, Entry, PodMap};
use serde::Serialize;
use state::StateDir;

use crate::{
    exit::{CommandError, CommandExit},
    json, state_dir_warning, table,
};

const HEAD: [&str; 10] =
    ["NAMESPACE", "POD", "IFNAME", "NETWORK", "MODE", "RDMA-DEVICE", "PCI", "ADDRESSES", "GIDS", "STATE"];

/// An entry of the pod map, as printed.
#[derive(Debug, Serialize)]
struct PodRow {
    #[serde(flatten)]
    entry: Entry,
    /// Why the entry is stale; `None` while its pod has the device.
    stale: Option<StaleReason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum StaleReason {
    /// It was written before the last boot.
    Rebooted,
    /// Its network namespace no longer exists.
    NamespaceGone,
}

/// The state of the node that entries are compared with.
struct LiveNode {
    root: PathBuf,
    boot_id: Option<String>,
}

/// List the RDMA devices, addresses and GIDs of the pods on this node
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PodsArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    state_dir: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  silkrail pods
  silkrail pods --json | jq -r '.[] | select(.rdma.ibdev == \"mlx5_5\") | .pod.name'

Exit status:
  0   done
  1   an error
  2   wrong usage";

impl PodsArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        list(root, &self.state_dir, self.json, out)
    }
}

fn list(root: &Path, state: &Path, as_json: bool, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
    let node = LiveNode { root: root.to_owned(), boot_id: bootid::below(Path::new("/")).ok() };
    let mut entries = Vec::new();
    for read in PodMap::below(state).read_all()? {
        match read {
            Ok(entry) => entries.push(entry),
            Err(error) => eprintln!("silkrail: {error}"), // the other entries are still listed
        }
    }
    let rows = rows(entries, &node);
    if as_json {
        json::print(&rows, out)?;
    } else {
        table::print(out, HEAD, &rows.iter().map(PodRow::cells).collect::<Vec<_>>())?;
        state_dir_warning::warn_if_missing(state, out)?;
    }
    Ok(CommandExit::Done)
}

/// Sorts the entries by namespace, pod and interface.
fn rows(mut entries: Vec<Entry>, node: &LiveNode) -> Vec<PodRow> {
    let key = |entry: &Entry| {
        let pod = entry.pod.clone();
        let (namespace, name) = pod.map(|pod| (pod.namespace, pod.name)).unwrap_or_default();
        (namespace, name, entry.container.sandbox_id.clone(), entry.network.ifname.clone())
    };
    entries.sort_by_cached_key(key);
    entries.into_iter().map(|entry| PodRow { stale: node.stale(&entry), entry }).collect()
}

impl LiveNode {
    fn stale(&self, entry: &Entry) -> Option<StaleReason> {
        if self.boot_id.as_ref().is_some_and(|id| *id != entry.boot_id) {
            return Some(StaleReason::Rebooted);
        }
        let container = &entry.container;
        let path = container.netns_path.strip_prefix("/").unwrap_or(&container.netns_path);
        let same = fs::metadata(self.root.join(path))
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == (container.netns_dev, container.netns_ino));
        (!same).then_some(StaleReason::NamespaceGone)
    }
}

impl PodRow {
    fn cells(&self) -> [String; HEAD.len()] {
        let Entry { pod, container, network, rdma, .. } = &self.entry;
        let short = || container.sandbox_id.chars().take(12).collect();
        let (namespace, name) = pod
            .as_ref()
            .map_or_else(|| (String::new(), short()), |pod| (pod.namespace.clone(), pod.name.clone()));
        let mode = match rdma.mode {
            AttachMode::None => "none",
            AttachMode::Shared => "shared",
            AttachMode::Exclusive => "exclusive",
        };
        let gids: Vec<String> = rdma.gids.iter().map(|gid| format!("{}:{}", gid.index, gid.gid)).collect();
        [
            namespace,
            name,
            network.ifname.clone(),
            network.name.clone(),
            mode.to_owned(),
            rdma.ibdev.clone().unwrap_or_default(),
            rdma.pci.map(|pci| pci.to_string()).unwrap_or_default(),
            network.ips.join(","),
            gids.join(","),
            self.stale.map_or("ok", StaleReason::text).to_owned(),
        ]
    }
}

impl StaleReason {
    fn text(self) -> &'static str {
        match self {
            Self::Rebooted => "stale (before the reboot)",
            Self::NamespaceGone => "stale (pod is gone)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podmap::{GidInfo, PodRef};

    const BOOT: &str = "8d7c0000-0000-4000-8000-000000000000";

    /// A node whose root holds one namespace file, and an entry of a pod in it.
    fn node() -> (tempfile::TempDir, LiveNode, Entry) {
        let root = tempfile::tempdir().unwrap();
        let node = LiveNode { root: root.path().to_owned(), boot_id: Some(BOOT.into()) };
        fs::create_dir_all(root.path().join("run/netns")).unwrap();
        fs::write(root.path().join("run/netns/cni-1"), "").unwrap();
        let meta = fs::metadata(root.path().join("run/netns/cni-1")).unwrap();
        let mut entry = Entry::new("sriov", "f00dfeed0123456789@net1".parse().unwrap());
        entry.boot_id = BOOT.into();
        entry.container.netns_path = "/run/netns/cni-1".into();
        (entry.container.netns_dev, entry.container.netns_ino) = (meta.dev(), meta.ino());
        entry.pod = Some(PodRef { namespace: "train".into(), name: "job-0".into(), uid: None });
        entry.network.name = "rail0".into();
        entry.network.ips = vec!["172.81.0.119/16".into()];
        entry.rdma.mode = AttachMode::Exclusive;
        entry.rdma.ibdev = Some("mlx5_5".into());
        entry.rdma.pci = Some("0000:af:00.5".parse().unwrap());
        entry.rdma.gids =
            vec![GidInfo { index: 3, kind: "RoCE v2".into(), gid: "::ffff:172.81.0.119".into() }];
        (root, node, entry)
    }

    fn printed(entries: Vec<Entry>, node: &LiveNode) -> String {
        let mut out = Vec::new();
        let rows = rows(entries, node);
        table::print(&mut out, HEAD, &rows.iter().map(PodRow::cells).collect::<Vec<_>>()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pod_is_one_line_and_lines_are_sorted() {
        let (_root, node, entry) = node();
        let mut second = entry.clone();
        second.pod = Some(PodRef { namespace: "train".into(), name: "job-00".into(), uid: None });
        let mut plain = entry.clone();
        (plain.pod, plain.rdma) = (None, podmap::RdmaInfo::default());
        let text = printed(vec![second, entry, plain], &node);
        let expected = "\
NAMESPACE  POD           IFNAME  NETWORK  MODE       RDMA-DEVICE  PCI           ADDRESSES        GIDS                   STATE
-          f00dfeed0123  net1    rail0    none       -            -             172.81.0.119/16  -                      ok
train      job-0         net1    rail0    exclusive  mlx5_5       0000:af:00.5  172.81.0.119/16  3:::ffff:172.81.0.119  ok
train      job-00        net1    rail0    exclusive  mlx5_5       0000:af:00.5  172.81.0.119/16  3:::ffff:172.81.0.119  ok
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_stale_entry_is_marked() {
        let (_root, node, entry) = node();
        assert_eq!(node.stale(&entry), None);
        let other = Entry { boot_id: "other".into(), ..entry.clone() };
        assert_eq!(node.stale(&other), Some(StaleReason::Rebooted));
        let mut reused = entry.clone();
        reused.container.netns_ino += 1;
        assert_eq!(node.stale(&reused), Some(StaleReason::NamespaceGone));
        fs::remove_file(node.root.join("run/netns/cni-1")).unwrap();
        assert_eq!(node.stale(&entry), Some(StaleReason::NamespaceGone));
    }

    #[test]
    fn json_has_the_whole_entry_and_the_mark() {
        let (_root, node, entry) = node();
        let value = serde_json::to_value(rows(vec![entry], &node)).unwrap();
        assert_eq!(value[0]["rdma"]["ibdev"], "mlx5_5");
        assert_eq!(value[0]["stale"], serde_json::Value::Null);
    }

    #[test]
    fn an_empty_state_directory_is_an_empty_table() {
        let dir = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        assert_eq!(list(Path::new("/"), dir.path(), true, &mut out).unwrap(), CommandExit::Done);
        assert_eq!(String::from_utf8(out).unwrap(), "[]\n");
    }
}
