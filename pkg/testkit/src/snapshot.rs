//! Snapshots of a node, for comparison.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use nix::sys::socket::SockProtocol;

use crate::{
    dump::dump,
    message::{Kind, LinkNames, Message, link_name},
    netns_view::inside,
};

const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const RTM_GETRULE: u16 = 34;
/// `RDMA_NLDEV_CMD_GET` of the client `RDMA_NL_NLDEV`.
const RDMA_GET_DEVICE: u16 = (5 << 10) + 1;
/// A request for links, with the attribute `IFLA_EXT_MASK`: with VFs, without statistics.
const LINKS_WITH_VFS: [u8; 24] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 29, 0, 9, 0, 0, 0];

/// The sysctls of a link that the kernel's message about it does not contain, as a test of this crate verifies.
const OTHER_SYSCTLS: [&str; 4] =
    ["ra_honor_pio_life", "ra_honor_pio_pflag", "regen_min_advance", "stable_secret"];

/// Links, addresses, routes, rules, sysctls and RDMA devices of a node and its pods, and the files of the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    facts: BTreeMap<String, Fact>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fact {
    Text(String),
    /// Objects with the same identity, in the kernel's order.
    Objects(Vec<Message>),
}

impl Snapshot {
    /// Takes a snapshot of a node, whose network namespace is the calling thread's, with the namespaces in a directory and the
    /// files of a state directory.
    pub(crate) fn of(netns_dir: &Path, state_dir: &Path) -> Self {
        let mut snapshot = Self { facts: BTreeMap::new() };
        snapshot.add_netns("node");
        for (name, path) in entries(netns_dir) {
            inside(&path, || snapshot.add_netns(&format!("pod {name}")));
        }
        snapshot.add_sysfs();
        snapshot.list(state_dir, "state");
        snapshot
    }

    /// Adds the facts of `/sys` that the kernel's messages do not contain: the names of the devices, the first GIDs of their
    /// tables, and the RDMA device of each character device.
    fn add_sysfs(&mut self) {
        for class in ["net", "infiniband", "infiniband_verbs", "infiniband_mad"] {
            for (name, path) in entries(&Path::new("/sys/class").join(class)) {
                let ibdev = read(&path.join("ibdev")).unwrap_or_default();
                let fact = format!("{}{}", ibdev.trim(), gids(&path).join(" "));
                self.facts.insert(format!("sysfs: {class} {name}"), Fact::Text(fact));
            }
        }
    }

    /// Adds the facts of the calling thread's network namespace.
    fn add_netns(&mut self, place: &str) {
        let links = dump(SockProtocol::NetlinkRoute, RTM_GETLINK, &LINKS_WITH_VFS);
        let names = links.iter().map(|link| link_name(link)).collect();
        self.add_sysctls(place, &names);
        self.add_objects(place, Kind::Link, links, &names);
        for (kind, request) in
            [(Kind::Address, RTM_GETADDR), (Kind::Route, RTM_GETROUTE), (Kind::Rule, RTM_GETRULE)]
        {
            // Of every address family.
            let objects = dump(SockProtocol::NetlinkRoute, request, &[0; 12]);
            self.add_objects(place, kind, objects, &names);
        }
        if Path::new("/sys/class/infiniband").exists() {
            let devices = dump(SockProtocol::NetlinkRDMA, RDMA_GET_DEVICE, &[]);
            self.add_objects(place, Kind::RdmaDevice, devices, &names);
        }
    }

    fn add_objects(&mut self, place: &str, kind: Kind, objects: Vec<Vec<u8>>, names: &LinkNames) {
        for object in objects {
            let message = Message::new(kind, object, names);
            let fact = self.facts.entry(format!("{place}: {}", message.identity()));
            match fact.or_insert_with(|| Fact::Objects(Vec::new())) {
                Fact::Objects(same) => same.push(message),
                Fact::Text(text) => panic!("{text}"),
            }
        }
    }

    /// Adds the sysctls that the messages about links do not contain: of all links and of new ones, and some of each link. Some
    /// cannot be read.
    fn add_sysctls(&mut self, place: &str, names: &LinkNames) {
        let of_links =
            names.values().flat_map(|link| OTHER_SYSCTLS.map(|sysctl| format!("ipv6/conf/{link}/{sysctl}")));
        let of = |dir: &str| {
            let name = |(file, _): (String, PathBuf)| format!("{dir}/{file}");
            entries(&Path::new("/proc/sys/net").join(dir)).into_iter().map(name).collect::<Vec<_>>()
        };
        let others = ["ipv4/conf/all", "ipv4/conf/default", "ipv6/conf/all", "ipv6/conf/default"];
        for sysctl in others.into_iter().flat_map(of).chain(of_links) {
            if let Ok(value) = read(&Path::new("/proc/sys/net").join(&sysctl)) {
                self.facts.insert(format!("{place}: sysctl {sysctl}"), Fact::Text(value));
            }
        }
    }

    /// Adds the files below a directory with their content, except address maps, which are derived from the claims, and the
    /// record of `silkrail gc`, which describes its runs.
    fn list(&mut self, dir: &Path, name: &str) {
        for (entry, path) in entries(dir).into_iter().filter(|(entry, _)| entry != "gc.json") {
            let name = format!("{name}/{entry}");
            if path.is_dir() && !path.is_symlink() {
                if entry != "maps" {
                    self.list(&path, &name);
                }
                continue;
            }
            let content = fs::read_link(&path).map(|to| format!("-> {}", to.display()));
            // Reading a pipe would block.
            let read = |path: &Path| if path.is_file() { fs::read(path) } else { Ok(b"not a file".to_vec()) };
            let content = content.or_else(|_| read(&path).map(|b| String::from_utf8_lossy(&b).into_owned()));
            self.facts.insert(name, Fact::Text(content.unwrap_or_else(|e| e.to_string())));
        }
    }

    /// Returns the paths of the files in the state directory, relative to it.
    pub fn state(&self) -> Vec<&str> {
        self.facts.keys().filter_map(|key| key.strip_prefix("state/")).collect()
    }

    /// Returns the addresses that are claimed.
    pub fn claims(&self) -> Vec<&str> {
        self.state().into_iter().filter_map(|path| path.split_once("/claims/").map(|(_, ip)| ip)).collect()
    }

    /// Asserts that the snapshot equals an earlier one.
    ///
    /// # Panics
    /// If anything differs; the message lists the differences.
    pub fn assert_is(&self, before: &Self) {
        let difference = self.difference(before);
        assert!(difference.is_empty(), "the node is not as before:\n{difference}");
    }

    /// Returns the facts that are new (`+`) or gone (`-`) since an earlier snapshot, one per line; of objects that have changed
    /// the attributes.
    pub fn difference(&self, before: &Self) -> String {
        let mut text = String::new();
        for (sign, these, others) in [('-', before, self), ('+', self, before)] {
            for (key, fact) in these.facts.iter().filter(|(key, fact)| others.facts.get(*key) != Some(fact)) {
                let (lines, known) =
                    (fact.lines(), others.facts.get(key).map(Fact::lines).unwrap_or_default());
                let mut differing: Vec<_> = lines.iter().filter(|line| !known.contains(line)).collect();
                // Their order, or how many there are of them.
                if differing.is_empty() {
                    differing.extend(&lines);
                }
                for line in differing {
                    let _ = writeln!(text, "{sign} {key}: {line}");
                }
            }
        }
        text
    }
}

impl Fact {
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::Objects(objects) => objects.iter().flat_map(Message::lines).collect(),
        }
    }
}

/// Returns the GIDs of a device, sorted: their order depends on which entries were free.
fn gids(device: &Path) -> Vec<String> {
    let table = device.join("ports/1/gids");
    if !table.exists() {
        return Vec::new();
    }
    let mut gids: Vec<_> = (0..24)
        .filter_map(|index| read(&table.join(index.to_string())).ok())
        .map(|gid| gid.trim().to_owned())
        .filter(|gid| gid.bytes().any(|b| b != b'0' && b != b':'))
        .collect();
    gids.sort();
    gids
}

/// Reads a file of the kernel, whose content is short, with one call.
fn read(path: &Path) -> io::Result<String> {
    let mut content = [0; 4096];
    let length = File::open(path)?.read(&mut content)?;
    Ok(String::from_utf8_lossy(&content[..length]).into_owned())
}

fn entries(dir: &Path) -> Vec<(String, PathBuf)> {
    let listed: io::Result<Vec<_>> = fs::read_dir(dir).and_then(Iterator::collect);
    let mut entries: Vec<_> = listed
        .unwrap_or_default()
        .iter()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect();
    entries.sort();
    entries
}
