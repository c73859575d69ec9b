//! RDMA devices.

use exporter::{DeviceReading, DeviceSnapshot, NodeSnapshot, PortReading, ResourceHolder};
use serde::Serialize;

use super::{
    counters::CountersView,
    pod::{HolderView, PodNameView},
};

/// One RDMA device.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeviceView {
    /// Its name, like `mlx5_3`: unique on the node, but not the same after a reboot.
    name: String,
    /// The kernel's number for it. It stays across moves and renames.
    index: u32,
    /// The driver of its function.
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<String>,
    /// The firmware's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    firmware: Option<String>,
    /// The maker's name for the board.
    #[serde(skip_serializing_if = "Option::is_none")]
    board: Option<String>,
    /// Its GUID.
    node_guid: String,
    /// Its PCI function, or its auxiliary one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pci_address: Option<String>,
    /// The NUMA node it is attached to.
    #[serde(skip_serializing_if = "Option::is_none")]
    numa_node: Option<u32>,
    /// Whether it is a VF's.
    is_vf: bool,
    /// The RDMA device of its PF: for a PF its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pf_device: Option<String>,
    /// The network device of its PF: for a PF its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pf_netdev: Option<String>,
    /// `roce`, `ib`, `iw`, `opa`.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    /// Whose namespace it is in: `host` or `pod`.
    netns: &'static str,
    /// The pod, if it is in one's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<PodNameView>,
    /// The traffic class of all its packets, where the vendor's driver sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic_class: Option<u32>,
    /// Objects in use, the kernel's own too.
    objects: ResourceCountsView,
    /// What others than pods hold of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_holders: Vec<OtherHolderView>,
    /// Its ports.
    ports: Vec<PortView>,
}

/// How many objects of each kind there are.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceCountsView {
    /// Queue pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    qp: Option<u64>,
    /// Completion queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    cq: Option<u64>,
    /// Memory regions.
    #[serde(skip_serializing_if = "Option::is_none")]
    mr: Option<u64>,
    /// Protection domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pd: Option<u64>,
    /// User contexts.
    #[serde(skip_serializing_if = "Option::is_none")]
    ctx: Option<u64>,
    /// Shared receive queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    srq: Option<u64>,
    /// Connection manager IDs.
    #[serde(skip_serializing_if = "Option::is_none")]
    cm_id: Option<u64>,
}

/// Somebody who is no pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OtherHolderView {
    /// `node`, processes of the node itself, or `unknown`.
    who: &'static str,
    /// What they hold.
    #[serde(flatten)]
    holding: HolderView,
}

/// One port.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PortView {
    /// Its number, from 1.
    number: u32,
    /// `down`, `init`, `armed`, `active`, `active_defer`.
    state: String,
    /// `sleep`, `polling`, `disabled`, `link_training`, `link_up`, `link_error_recovery`, `phy_test`.
    physical_state: String,
    /// `Ethernet` or `InfiniBand`.
    link_layer: &'static str,
    /// Its network device, as the namespace it is in calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    netdev: Option<String>,
    /// The link's speed in bits per second; of a VF its PF's.
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<u64>,
    /// Its GID table.
    #[serde(skip_serializing_if = "Option::is_none")]
    gids: Option<GidTableView>,
    /// What it has counted.
    counters: CountersView,
}

/// A GID table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GidTableView {
    /// How many entries there is room for.
    capacity: usize,
    /// Those in use.
    entries: Vec<GidView>,
}

/// An entry of a GID table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GidView {
    /// What applications call the GID index.
    index: u32,
    /// `IB`, `RoCE v1`, `RoCE v2`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The address; an IPv4 address is mapped, `::ffff:172.81.0.100`.
    address: String,
    /// The network device it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    netdev: Option<String>,
    /// The pod whose address it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<PodNameView>,
}

const BITS_PER_MEGABIT: u64 = 1_000_000;

impl DeviceView {
    pub(super) fn of(device: &DeviceSnapshot, report: &NodeSnapshot) -> Self {
        let (reading, facts) = (&device.reading, &device.reading.facts);
        let ports = reading.ports.iter().zip(device.totals());
        Self {
            name: reading.device.name.clone(),
            index: reading.device.index,
            driver: facts.driver.clone(),
            firmware: reading.device.fw_version.clone(),
            board: facts.board_id.clone(),
            node_guid: reading.device.node_guid.to_string(),
            pci_address: facts.function.clone(),
            numa_node: facts.numa_node,
            is_vf: facts.is_vf,
            pf_device: facts.pf_device.clone(),
            pf_netdev: facts.pf_link.clone(),
            protocol: reading.device.protocol.clone(),
            netns: reading.netns(),
            pod: reading.pod.as_deref().map(PodNameView::from),
            traffic_class: reading.traffic_class,
            objects: ResourceCountsView::of(reading),
            other_holders: OtherHolderView::all(device),
            ports: ports
                .map(|(port, totals)| PortView {
                    gids: GidTableView::of(port, device, report),
                    ..PortView::of(port, totals.into())
                })
                .collect(),
        }
    }
}

impl ResourceCountsView {
    fn of(reading: &DeviceReading) -> Self {
        let Some(counts) = &reading.resources else { return Self::default() };
        Self {
            qp: counts.qp,
            cq: counts.cq,
            mr: counts.mr,
            pd: counts.pd,
            ctx: counts.ctx,
            srq: counts.srq,
            cm_id: counts.cm_id,
        }
    }
}

impl OtherHolderView {
    fn all(device: &DeviceSnapshot) -> Vec<Self> {
        let shares = device.usage.iter().flat_map(|usage| &usage.shares);
        let others = shares.filter_map(|(holder, share)| {
            let who = match holder {
                ResourceHolder::Node => "node",
                ResourceHolder::Unknown => "unknown",
                ResourceHolder::Pod(_) => return None,
            };
            Some(Self { who, holding: HolderView::of(device, share) })
        });
        others.collect()
    }
}

impl PortView {
    fn of(port: &PortReading, counters: CountersView) -> Self {
        Self {
            number: port.port.port,
            state: port.state(),
            physical_state: port.physical_state(),
            link_layer: port.link_layer(),
            netdev: port.port.link_name.clone(),
            speed: port.speed.map(|megabits| u64::from(megabits) * BITS_PER_MEGABIT),
            gids: None,
            counters,
        }
    }
}

impl GidTableView {
    fn of(port: &PortReading, device: &DeviceSnapshot, report: &NodeSnapshot) -> Option<Self> {
        let table = port.gids.as_ref()?;
        let entries = table.entries.iter().map(|gid| GidView {
            index: gid.index,
            kind: gid.kind.name(),
            address: gid.gid.to_string(),
            netdev: gid.link.clone(),
            pod: report.gid_owner(&device.reading, gid.gid).as_deref().map(PodNameView::from),
        });
        Some(Self { capacity: table.capacity, entries: entries.collect() })
    }
}
