//! `silkrail pods`: the RDMA devices of the pods on this node.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
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
/// The further columns of `-o wide`.
const WIDE: [&str; 5] = ["LINK", "MAC", "MTU", "SANDBOX", "CREATED"];
/// The interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

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
    /// List the pods of this namespace only
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Format: wide adds the link on the host, the MAC address, the MTU, the ID of the sandbox and the time of the ADD
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    /// Print JSON: the same as -o json
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Continue, and print each line that is new or has changed; a pod that is gone has the state deleted
    #[arg(short, long, conflicts_with = "json")]
    watch: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    state_dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OutputFormat {
    Table,
    Wide,
    Json,
}

const EXAMPLES: &str = "\
Examples:
  silkrail pods
  silkrail pods -n train -o wide --watch
  silkrail pods --json | jq -r '.[] | select(.rdma.ibdev == \"mlx5_5\") | .pod.name'

Exit status:
  0   done
  1   an error
  2   wrong usage";

impl PodsArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let node = LiveNode { root: root.to_owned(), boot_id: bootid::below(Path::new("/")).ok() };
        let rows = self.rows(&node, &mut BTreeSet::new())?;
        match self.output {
            _ if self.json => json::print(&rows, out)?,
            OutputFormat::Json if self.watch => return Err(CommandError::WatchJson),
            OutputFormat::Json => json::print(&rows, out)?,
            OutputFormat::Table => self.tables(HEAD, PodRow::cells, rows, &node, out)?,
            OutputFormat::Wide => self.tables(wide_head(), PodRow::wide_cells, rows, &node, out)?,
        }
        Ok(CommandExit::Done)
    }

    /// Reads the rows. The others are still listed if an entry cannot be read, which is reported once.
    fn rows(&self, node: &LiveNode, reported: &mut BTreeSet<String>) -> Result<Vec<PodRow>, CommandError> {
        let mut entries = Vec::new();
        for read in PodMap::below(&self.state_dir).read_all()? {
            match read {
                Ok(entry) => entries.push(entry),
                Err(error) if reported.insert(error.to_string()) => eprintln!("silkrail: {error}"),
                Err(_) => {}
            }
        }
        if let Some(namespace) = &self.namespace {
            entries.retain(|entry| entry.pod.as_ref().is_some_and(|pod| pod.namespace == *namespace));
        }
        Ok(rows(entries, node))
    }

    /// Prints a table, and with `--watch` continues with what changes, until the reader has gone.
    fn tables<const N: usize>(
        &self,
        head: [&str; N],
        cells: impl Fn(&PodRow) -> [String; N],
        rows: Vec<PodRow>,
        node: &LiveNode,
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let mut lines: Vec<_> = rows.iter().map(&cells).collect();
        table::print(out, head, &lines)?;
        state_dir_warning::warn_if_missing(&self.state_dir, out)?;
        if !self.watch {
            return Ok(());
        }
        let mut reported = BTreeSet::new();
        loop {
            out.flush()?;
            thread::sleep(WATCH_INTERVAL);
            let now: Vec<_> = self.rows(node, &mut reported)?.iter().map(&cells).collect();
            table::print_rows(out, head, &changes(&lines, &now))?;
            lines = now;
        }
    }
}

/// Returns the lines that are new or have changed, and those that are gone, with the state `deleted`. A line is that of the same
/// pod and interface.
fn changes<const N: usize>(before: &[[String; N]], now: &[[String; N]]) -> Vec<[String; N]> {
    let state = HEAD.len() - 1;
    let key = |line: &[String; N]| line[..3].to_vec();
    let gone = before.iter().filter(|line| !now.iter().any(|other| key(other) == key(line)));
    let gone = gone.map(|line| {
        let mut line = line.clone();
        line[state] = "deleted".into();
        line
    });
    gone.chain(now.iter().filter(|line| !before.contains(line)).cloned()).collect()
}

fn wide_head() -> [&'static str; HEAD.len() + WIDE.len()] {
    std::array::from_fn(|column| *HEAD.iter().chain(&WIDE).nth(column).unwrap_or(&""))
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

impl PodRow {
    fn wide_cells(&self) -> [String; HEAD.len() + WIDE.len()] {
        let Entry { container, network, rdma, created_at, .. } = &self.entry;
        let link = rdma.host_netdev.clone().or_else(|| rdma.master.clone()).unwrap_or_default();
        let further = [
            link,
            network.mac.clone().unwrap_or_default(),
            network.mtu.map(|mtu| mtu.to_string()).unwrap_or_default(),
            container.sandbox_id.chars().take(12).collect(),
            created_at.clone(),
        ];
        let mut all = self.cells().into_iter().chain(further);
        std::array::from_fn(|_| all.next().unwrap_or_default())
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
        let args = |json| PodsArgs {
            namespace: None,
            output: OutputFormat::Table,
            json,
            watch: false,
            state_dir: dir.path().to_owned(),
        };
        let printed = |json| {
            let mut out = Vec::new();
            assert_eq!(args(json).run(Path::new("/"), &mut out).unwrap(), CommandExit::Done);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(true), "[]\n");
        assert!(printed(false).starts_with("NAMESPACE  POD"));
    }

    #[test]
    fn an_entry_that_cannot_be_read_hides_no_other_and_pods_of_a_namespace_are_selected() {
        let (root, node, entry) = node();
        let map = PodMap::below(root.path());
        let write = |id: &str, namespace: Option<&str>| {
            let attachment: identifiers::Attachment = format!("{id}@net1").parse().unwrap();
            let mut entry = Entry { boot_id: BOOT.into(), ..Entry::new("sriov", attachment.clone()) };
            entry.pod =
                namespace.map(|namespace| PodRef { namespace: namespace.into(), name: id.into(), uid: None });
            map.write(&attachment, &entry).unwrap();
        };
        write("b", Some("train"));
        write("c", Some("web"));
        write("d", None);
        let attachment: identifiers::Attachment = "a@net1".parse().unwrap();
        map.write(&attachment, &entry).unwrap();
        let broken = fs::read_dir(root.path().join("podmap/v1")).unwrap();
        let broken = broken.map(|file| file.unwrap().path()).find(|path| path.ends_with("a@net1.json"));
        fs::write(broken.unwrap(), "{").unwrap();
        let names = |namespace: Option<&str>| {
            let args = PodsArgs {
                namespace: namespace.map(str::to_owned),
                output: OutputFormat::Table,
                json: false,
                watch: false,
                state_dir: root.path().to_owned(),
            };
            let mut reported = BTreeSet::new();
            let rows = args.rows(&node, &mut reported).unwrap();
            assert_eq!(reported.len(), 1, "{reported:?}");
            rows.into_iter().map(|row| row.entry.container.sandbox_id).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["d", "b", "c"]);
        assert_eq!((names(Some("train")), names(Some("none"))), (vec!["b".to_owned()], Vec::new()));
    }

    #[test]
    fn wide_adds_columns_at_the_end() {
        let (_root, node, mut entry) = node();
        (entry.rdma.host_netdev, entry.network.mtu) = (Some("ens1f0v5".into()), Some(4200));
        entry.created_at = "2026-01-02T03:04:05Z".into();
        let row = &rows(vec![entry], &node)[0];
        assert_eq!(wide_head()[HEAD.len() - 1..], ["STATE", "LINK", "MAC", "MTU", "SANDBOX", "CREATED"]);
        let cells = row.wide_cells();
        let expected = ["ok", "ens1f0v5", "", "4200", "f00dfeed0123", "2026-01-02T03:04:05Z"];
        assert_eq!(cells[HEAD.len() - 1..], expected);
        assert_eq!(cells[..HEAD.len()], row.cells());
    }

    #[test]
    fn a_watch_prints_what_is_new_changed_or_gone() {
        let line = |pod: &str, state: &str| {
            let mut line: [String; HEAD.len()] = Default::default();
            (line[1], line[HEAD.len() - 1]) = (pod.into(), state.into());
            line
        };
        let before = [line("a", "ok"), line("b", "ok"), line("c", "ok")];
        let now = [line("a", "ok"), line("b", "stale (pod is gone)"), line("d", "ok")];
        let expected = [line("c", "deleted"), line("b", "stale (pod is gone)"), line("d", "ok")];
        assert_eq!(changes(&before, &now), expected);
        assert!(changes(&now, &now).is_empty());
    }
}
