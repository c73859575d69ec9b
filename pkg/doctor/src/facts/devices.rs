//! RDMA devices that are visible in the host's network namespace, and their ports.

use serde::Serialize;
use sysfs::Sysfs;

use super::{functions::FunctionFacts, netlink::NetlinkFacts};
use crate::{Known, host_root::HostRoot};

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceFacts {
    pub(crate) name: String,
    /// The RDMA driver that the RDMA core reports over netlink, or else the driver of the function.
    pub(crate) driver: Option<String>,
    /// The PCI function or auxiliary device; `None` for a software device.
    pub(crate) function: Option<String>,
    /// `CA`, or `RNIC` for an iWARP device, which has neither GIDs of IP addresses nor an RDMA MTU.
    pub(crate) node_type: Known<String>,
    pub(crate) node_guid: Known<String>,
    pub(crate) firmware: Known<String>,
    /// The vendor's board ID (`MT_0000000223`).
    pub(crate) board: Known<String>,
    pub(crate) ports: Vec<PortFacts>,
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PortFacts {
    pub(crate) number: u32,
    /// `ACTIVE`, `DOWN`, `INIT`.
    pub(crate) state: Known<String>,
    /// `LinkUp`, `Disabled`, `Polling`.
    pub(crate) physical: Known<String>,
    /// `Ethernet`, `InfiniBand`.
    pub(crate) layer: Known<String>,
    /// `100 Gb/sec (4X EDR)`.
    pub(crate) rate: Known<String>,
    /// The LID of the subnet manager; `0x0` if there is none.
    pub(crate) sm_lid: Known<String>,
    pub(crate) link: Option<String>,
    pub(crate) gids: Option<Vec<GidFacts>>,
    /// The number of entries of the GID table, used or not.
    pub(crate) gid_table: usize,
    /// The traffic class that the vendor's driver sets for all packets.
    pub(crate) traffic_class: Option<u32>,
    /// The traffic class that RDMA CM gives new connections: `default_roce_tos` in configfs, if it was set.
    pub(crate) cm_traffic_class: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct GidFacts {
    pub(crate) index: u32,
    pub(crate) gid: std::net::Ipv6Addr,
    /// `RoCE v2`, `RoCE v1`, `IB`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) link: Option<String>,
}

const CLASS: &str = "sys/class/infiniband";

pub(crate) fn read(tree: &HostRoot, functions: &[FunctionFacts], netlink: &NetlinkFacts) -> Vec<DeviceFacts> {
    let names = tree.names(CLASS);
    names.items().iter().map(|name| device(tree, name, functions, netlink)).collect()
}

fn device(tree: &HostRoot, name: &str, functions: &[FunctionFacts], netlink: &NetlinkFacts) -> DeviceFacts {
    let file = |file: &str| format!("{CLASS}/{name}/{file}");
    let function = tree.link(file("device")).filter(|target| target.contains([':', '.']));
    let driver = netlink.drivers.get(name).cloned().or_else(|| driver(tree, name));
    let mut ports: Vec<PortFacts> = tree
        .names(file("ports"))
        .items()
        .iter()
        .filter_map(|number| number.parse().ok())
        .map(|number| port(tree, name, number))
        .collect();
    ports.sort_by_key(|port| port.number);
    for port in &mut ports {
        let reported = netlink.links.get(&(name.to_owned(), port.number)).cloned();
        port.link = reported.or_else(|| port.link.take()).or_else(|| only_link(&function, functions, port));
    }
    DeviceFacts {
        name: name.to_owned(),
        driver,
        function,
        node_type: tree.text(file("node_type")).map(word),
        node_guid: tree.text(file("node_guid")),
        firmware: tree.text(file("fw_ver")),
        board: tree.text(file("board_id")),
        ports,
    }
}

/// Returns the driver of the function. Of the software devices, only rxe has a file `parent`.
fn driver(tree: &HostRoot, device: &str) -> Option<String> {
    let below = tree.link(format!("{CLASS}/{device}/device/driver"));
    below.or_else(|| tree.is_there(format!("{CLASS}/{device}/parent")).then(|| "rxe".to_owned()))
}

/// Returns the link of a RoCE port whose function has exactly one link.
fn only_link(function: &Option<String>, functions: &[FunctionFacts], port: &PortFacts) -> Option<String> {
    let function = functions.iter().find(|known| Some(&known.address) == function.as_ref())?;
    match function.links.as_slice() {
        [link] if port.layer.is_and(|layer| layer == "Ethernet") => Some(link.clone()),
        _ => None,
    }
}

fn port(tree: &HostRoot, device: &str, number: u32) -> PortFacts {
    let file = |name: &str| format!("{CLASS}/{device}/ports/{number}/{name}");
    let sysfs = Sysfs::at(tree.path("sys"));
    let gids = sysfs.gid_table(device, number);
    let gids =
        gids.map_err(|error| tree.note_unexamined(format!("GIDs of port {number} of {device}"), error)).ok();
    let class = tree.text(format!("{CLASS}/{device}/tc/{number}/traffic_class"));
    let cm = tree.text(format!("sys/kernel/config/rdma_cm/{device}/ports/{number}/default_roce_tos"));
    PortFacts {
        number,
        state: tree.text(file("state")).map(word),
        physical: tree.text(file("phys_state")).map(word),
        layer: tree.text(file("link_layer")),
        rate: tree.text(file("rate")),
        sm_lid: tree.text(file("sm_lid")),
        link: tree.text(file("gid_attrs/ndevs/0")).into_option().filter(|name| !name.is_empty()),
        gid_table: gids.as_ref().map(|table| table.capacity).unwrap_or_default(),
        gids: gids.map(|table| table.entries.into_iter().map(gid).collect()),
        traffic_class: class.get().and_then(|text| {
            text.lines().find_map(|line| line.trim().strip_prefix("Global tclass=")?.parse().ok())
        }),
        cm_traffic_class: cm.get().and_then(|text| text.trim().parse().ok()),
    }
}

/// Returns `ACTIVE` for `4: ACTIVE`, the form in sysfs.
fn word(text: String) -> String {
    text.rsplit(": ").next().unwrap_or_default().to_owned()
}

fn gid(gid: sysfs::GidEntry) -> GidFacts {
    GidFacts { index: gid.index, gid: gid.gid, kind: gid.kind.name(), link: gid.link }
}

impl PortFacts {
    pub(crate) fn is_infiniband(&self) -> bool {
        self.layer.is_and(|layer| layer == "InfiniBand")
    }

    pub(crate) fn is_active(&self) -> bool {
        self.state.is_and(|state| state == "ACTIVE")
    }

    /// Returns the rate in Gb/s.
    pub(crate) fn gigabits(&self) -> Option<f64> {
        self.rate.get()?.split(' ').next()?.parse().ok()
    }
}

impl DeviceFacts {
    /// Returns whether the port is a RoCE port: Ethernet, and not of an iWARP device.
    pub(crate) fn is_roce(&self, port: &PortFacts) -> bool {
        !port.is_infiniband() && !self.node_type.is_and(|kind| kind != "CA")
    }

    /// Returns the name of a port in findings: `mlx5_0 port 1`.
    pub(crate) fn object(&self, port: &PortFacts) -> String {
        format!("{} port {}", self.name, port.number)
    }
}
