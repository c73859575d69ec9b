//! The files of the node that a bundle contains.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::mpsc::SyncSender,
};

use rdma::Device;
use serde_json::{Value, json};
use sysfs::Sysfs;

use super::{memory, pci, processes, statistics};
use crate::{DoctorOptions, NodeFacts, host_root, kernel_log};

/// The maximum size of a file; larger files are truncated.
const MAX_FILE_BYTES: u64 = 256 << 10;
/// The maximum size of a list that is made for the bundle.
const MAX_LIST_BYTES: usize = 2 << 20;
/// The maximum number of routes and of rules.
const MAX_ROUTES: usize = 4096;
/// The maximum number of files per directory.
const MAX_FILES_PER_DIR: usize = 400;

/// A file of a bundle, or the reason why it was omitted.
pub(super) struct BundleEntry {
    pub(super) name: String,
    pub(super) content: Option<Vec<u8>>,
    pub(super) note: Option<String>,
}

/// The list of files to read.
pub(super) struct BundleCollector {
    root: PathBuf,
    files: Vec<String>,
    functions: Vec<String>,
    /// The links whose statistics are read; empty if the kernel does not answer for this node.
    links: Vec<String>,
    kernel_log: bool,
}

const FILES_OF_THE_NODE: [&str; 8] = [
    "etc/silkrail/node.yaml",
    "proc/modules",
    "proc/cmdline",
    "proc/version",
    "proc/self/limits",
    "etc/os-release",
    "sys/kernel/security/lockdown",
    "sys/module/ib_core/parameters/netns_mode",
];

/// Directories with configuration, and the extensions of the files to read. Never add `/etc/cni/net.d`, which contains the
/// cluster credentials of Multus, or other files of `/etc/silkrail`, which contains tokens.
const DIRECTORIES: [(&str, &[&str]); 6] = [
    ("etc/modprobe.d", &[".conf"]),
    ("run/modprobe.d", &[".conf"]),
    ("usr/lib/modprobe.d", &[".conf"]),
    ("etc/modules-load.d", &[".conf"]),
    ("etc/silkrail/pools.d", &[".yaml", ".yml", ".json"]),
    ("proc/sys/net/rdma_ucm", ANY),
];

const ANY: &[&str] = &[""];

const OF_DEVICE: [&str; 7] =
    ["node_guid", "sys_image_guid", "fw_ver", "hw_rev", "board_id", "hca_type", "node_type"];
const OF_PORT: [&str; 7] = ["state", "phys_state", "rate", "link_layer", "lid", "sm_lid", "cap_mask"];
const OF_LINK: [&str; 9] = [
    "address",
    "carrier",
    "flags",
    "ifindex",
    "mtu",
    "operstate",
    "phys_port_name",
    "phys_switch_id",
    "speed",
];
const OF_FUNCTION: [&str; 14] = [
    "class",
    "current_link_speed",
    "current_link_width",
    "device",
    "driver_override",
    "max_link_speed",
    "max_link_width",
    "numa_node",
    "revision",
    "sriov_drivers_autoprobe",
    "sriov_numvfs",
    "sriov_totalvfs",
    "subsystem_device",
    "vendor",
];
const OF_STATE: [(&str, &[&str]); 5] = [
    ("attachments", &[".journal", ".bad"]),
    ("podmap/v1", &[".json"]),
    ("vf", ANY),
    ("rdma", ANY),
    ("masters", ANY),
];

impl BundleCollector {
    pub(super) fn of(options: &DoctorOptions, facts: &NodeFacts) -> Self {
        let mut files: Vec<String> = FILES_OF_THE_NODE.map(str::to_owned).into();
        let mut add =
            |dir: String, names: &[&str]| files.extend(names.iter().map(|name| format!("{dir}/{name}")));
        for device in &facts.devices {
            let dir = format!("sys/class/infiniband/{}", device.name);
            add(dir.clone(), &OF_DEVICE);
            for port in &device.ports {
                add(format!("{dir}/ports/{}", port.number), &OF_PORT);
            }
        }
        for link in &facts.links {
            add(format!("sys/class/net/{}", link.name), &OF_LINK);
        }
        for function in &facts.functions {
            add(format!("sys/bus/pci/devices/{}", function.address), &OF_FUNCTION);
        }
        let state = options.state_dir.strip_prefix("/").unwrap_or(&options.state_dir);
        let state_dirs = OF_STATE.map(|(dir, ends)| (state.join(dir).display().to_string(), ends));
        let counters = facts.devices.iter().flat_map(|device| {
            let dir = format!("sys/class/infiniband/{}", device.name);
            let of_port =
                |number| ["counters", "hw_counters"].map(|kind| format!("{dir}/ports/{number}/{kind}"));
            let of_ports: Vec<_> = device.ports.iter().flat_map(|port| of_port(port.number)).collect();
            of_ports.into_iter().chain([format!("{dir}/hw_counters")]).map(|dir| (dir, ANY))
        });
        let directories = DIRECTORIES.map(|(dir, ends)| (dir.to_owned(), ends));
        for (dir, ends) in directories.into_iter().chain(state_dirs).chain(counters) {
            files.extend(below(&options.root, &dir, ends));
        }
        files.extend(memory::files(&options.root));
        files.extend(pci::files(facts));
        files.sort();
        files.dedup();
        Self {
            root: options.root.clone(),
            files,
            functions: pci::functions(facts),
            links: if facts.look.can_query_netlink() { statistics::links(facts) } else { Vec::new() },
            kernel_log: facts.look.this_machine,
        }
    }

    /// Reads and sends all files. Returns early if the receiver is gone.
    pub(super) fn run(self, to: &SyncSender<BundleEntry>) {
        for name in &self.files {
            let Some(piece) = self.piece(name) else { continue };
            if to.send(piece).is_err() {
                return;
            }
        }
        for piece in self.lists() {
            if to.send(piece).is_err() {
                return;
            }
        }
        if self.kernel_log {
            let name = "kernel-log.txt".to_owned();
            let _ = to.send(match kernel_log::tail(&self.root.join("dev/kmsg")) {
                Ok(text) => BundleEntry { name, content: Some(text), note: None },
                Err(error) => BundleEntry { name, content: None, note: Some(error.to_string()) },
            });
        }
    }

    /// Makes the files that are no copies of files of the node, without those that would be empty.
    fn lists(&self) -> impl Iterator<Item = BundleEntry> {
        let links = pci::links(&self.root, &self.functions).into_iter();
        let links = links.map(|(path, target)| (format!("node/{path}"), target));
        let statistics = || if self.links.is_empty() { String::new() } else { statistics::text(&self.links) };
        let lists = [
            ("pci-config.txt", pci::config(&self.root, &self.functions)),
            ("rdma-processes.txt", processes::list(&self.root)),
            ("ethtool-statistics.txt", statistics()),
        ];
        let lists = lists.into_iter().map(|(name, text)| (name.to_owned(), text));
        links.chain(lists).filter(|(_, text)| !text.is_empty()).map(|(name, text)| {
            let mut content = text.into_bytes();
            let note =
                (content.len() > MAX_LIST_BYTES).then(|| format!("truncated after {MAX_LIST_BYTES} bytes"));
            content.truncate(MAX_LIST_BYTES);
            BundleEntry { name, content: Some(content), note }
        })
    }

    /// Reads a file; `None` if it does not exist.
    fn piece(&self, path: &str) -> Option<BundleEntry> {
        let name = format!("node/{path}");
        if path.starts_with("etc/") && is_private(&self.root, path) {
            let note = Some("not readable by all users, and therefore omitted".to_owned());
            return Some(BundleEntry { name, content: None, note });
        }
        match host_root::read(&self.root.join(path), MAX_FILE_BYTES + 1) {
            Ok(mut content) => {
                let long = content.len() as u64 > MAX_FILE_BYTES;
                content.truncate(usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX));
                let note = long.then(|| format!("truncated after {MAX_FILE_BYTES} bytes"));
                Some(BundleEntry { name, content: Some(content), note })
            }
            // Attributes that currently have no value fail with various errors.
            Err(error)
                if path.starts_with("sys/") && error.kind() != std::io::ErrorKind::PermissionDenied =>
            {
                None
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => Some(BundleEntry { name, content: None, note: Some(error.to_string()) }),
        }
    }
}

/// Returns whether a file is not accessible to all users: the file itself is not readable by others, or a directory on its
/// path, before or after the resolution of symbolic links, is not searchable by others.
fn is_private(root: &Path, path: &str) -> bool {
    let path = root.join(path);
    let Ok(meta) = fs::metadata(&path) else { return false };
    let real = [root, &path].map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
    let [real_root, real] = &real;
    !is_for_others(&meta, 0o004) || has_private_parent(&path, root) || has_private_parent(real, real_root)
}

/// Returns whether a directory between the root and the file is not searchable by others.
fn has_private_parent(path: &Path, root: &Path) -> bool {
    let mut between = path.ancestors().skip(1).take_while(|dir| *dir != root);
    between.any(|dir| !fs::metadata(dir).is_ok_and(|meta| is_for_others(&meta, 0o001)))
}

fn is_for_others(meta: &fs::Metadata, bit: u32) -> bool {
    meta.permissions().mode() & bit != 0
}

/// Returns the regular files and symbolic links of a directory whose names have one of the extensions.
fn below(root: &Path, dir: &str, ends: &[&str]) -> Vec<String> {
    let entries = fs::read_dir(root.join(dir)).into_iter().flatten().flatten();
    let plain = entries.filter(|entry| {
        entry.file_type().is_ok_and(|kind| !kind.is_dir() && !kind.is_fifo() && !kind.is_char_device())
    });
    let names = plain.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names = names.filter(|name| ends.iter().any(|end| name.ends_with(end)));
    let mut names: Vec<String> = names.map(|name| format!("{dir}/{name}")).collect();
    names.sort();
    names.truncate(MAX_FILES_PER_DIR);
    names
}

/// Queries the kernel over netlink, like `rdma -j dev`, `rdma -j link`, `ip -j address`, `ip -j route show table all`,
/// `ip -j rule`.
pub(super) fn netlink(options: &DoctorOptions) -> Value {
    let sysfs = Sysfs::at(options.root.join("sys"));
    let rdma = rdma::Handle::open(&sysfs).and_then(|rdma| {
        let devices = rdma.devices()?;
        let ports = rdma.all_ports()?;
        Ok(json!({
            "devices": devices.iter().map(device).collect::<Vec<_>>(),
            "ports": ports.iter().map(port).collect::<Vec<_>>(),
        }))
    });
    let links = rtnl::Handle::open().and_then(|handle| {
        let links = handle.links()?;
        links
            .iter()
            .map(|link| Ok(link_value(link, &handle.addresses(link.index)?)))
            .collect::<Result<Vec<_>, rtnl::Error>>()
    });
    let routes = rtnl::Handle::open().and_then(|handle| handle.list_routes(MAX_ROUTES));
    let rules = rtnl::Handle::open().and_then(|handle| handle.list_rules(MAX_ROUTES));
    json!({
        "routes": routes.map_or_else(|error| json!(error.to_string()), |routes| json!(routes)),
        "rules": rules.map_or_else(|error| json!(error.to_string()), |rules| json!(rules)),
        "rdma": rdma.unwrap_or_else(|error| Value::String(error.to_string())),
        "links": links.map_or_else(|error| Value::String(error.to_string()), Value::Array),
    })
}

fn device(device: &Device) -> Value {
    json!({
        "index": device.index,
        "name": device.name,
        "nodeGuid": device.node_guid.to_string(),
        "sysImageGuid": device.sys_image_guid.to_string(),
        "firmware": device.fw_version,
        "protocol": device.protocol,
        "ports": device.ports,
    })
}

fn port(port: &rdma::Port) -> Value {
    json!({
        "device": port.device_name,
        "port": port.port,
        "state": format!("{:?}", port.state),
        "physicalState": format!("{:?}", port.phys_state),
        "link": port.link_name,
        "linkLayer": format!("{:?}", port.link_layer),
    })
}

fn link_value(link: &rtnl::Link, addresses: &[ipnetwork::IpNetwork]) -> Value {
    json!({
        "index": link.index,
        "name": link.name,
        "altnames": link.altnames,
        "kind": link.kind.as_ref().map(ToString::to_string),
        "mac": link.mac.map(|mac| mac.to_string()),
        "mtu": link.mtu,
        "up": link.up,
        "running": link.running,
        "parent": link.parent,
        "controller": link.controller,
        "device": link.device,
        "addresses": addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Returns the names of the node, and of the hosts in its `/etc/hosts`.
pub(super) fn hosts(options: &DoctorOptions, facts: &NodeFacts) -> Vec<String> {
    let text = |path: &str| fs::read_to_string(options.root.join(path)).unwrap_or_default();
    let mut hosts: Vec<String> = facts.kernel.hostname.iter().cloned().collect();
    hosts.push(text("etc/hostname").trim().to_owned());
    hosts.push(text("proc/sys/kernel/domainname").trim().to_owned());
    for line in text("etc/hosts").lines() {
        let line = line.split('#').next().unwrap_or_default();
        hosts.extend(line.split_ascii_whitespace().skip(1).map(str::to_owned));
    }
    hosts
}
