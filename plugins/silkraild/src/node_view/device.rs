//! RDMA devices.

use exporter::{DeviceReading, DeviceSnapshot, NodeSnapshot, PortReading, ProcessInfo, ResourceHolder};
use serde::Serialize;

use super::{
    counters::CountersView,
    pod::{HolderView, PodNameView},
};

/// An RDMA device.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeviceView {
    /// The device name, like `mlx5_3`: unique on the node, but it can change at a reboot.
    name: String,
    /// The index of the kernel (`RDMA_NLDEV_ATTR_DEV_INDEX`). It does not change when the device is moved or renamed.
    index: u32,
    /// The driver of its PCI function, like `mlx5_core`.
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<String>,
    /// The firmware version, like `28.39.1002`.
    #[serde(skip_serializing_if = "Option::is_none")]
    firmware: Option<String>,
    /// The board ID of the vendor (`board_id` in sysfs), like `MT_0000000838`.
    #[serde(skip_serializing_if = "Option::is_none")]
    board: Option<String>,
    /// The node GUID, like `0c42:a103:0065:8a1e`.
    node_guid: String,
    /// The address of its PCI function, or the name of its auxiliary device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pci_address: Option<String>,
    /// The NUMA node of its PCI function.
    #[serde(skip_serializing_if = "Option::is_none")]
    numa_node: Option<u32>,
    /// Whether its PCI function is a VF.
    is_vf: bool,
    /// The RDMA device of its PF; of a PF its own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pf_device: Option<String>,
    /// The network device of its PF; of a PF its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pf_netdev: Option<String>,
    /// The protocol: `roce`, `ib`, `iw`, `opa`.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    /// The network namespace: `host` or `pod`.
    netns: &'static str,
    /// The pod in whose network namespace it is, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<PodNameView>,
    /// A process in that namespace, if it does not belong to a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<ProcessInfo>,
    /// The traffic class of all its packets, if the vendor driver sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic_class: Option<u32>,
    /// The RDMA objects in use, including those of the kernel.
    objects: ResourceCountsView,
    /// RDMA objects that do not belong to pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_holders: Vec<OtherHolderView>,
    /// The ports, sorted by number.
    ports: Vec<PortView>,
}

/// The number of RDMA objects of each kind.
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

/// RDMA objects of a holder that is not a pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OtherHolderView {
    /// `node` for processes of the host, or `unknown`.
    who: &'static str,
    /// The objects.
    #[serde(flatten)]
    holding: HolderView,
}

/// A port of an RDMA device.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PortView {
    /// The port number, from 1.
    number: u32,
    /// The logical state: `down`, `init`, `armed`, `active`, `active_defer`.
    state: String,
    /// The physical state: `sleep`, `polling`, `disabled`, `link_training`, `link_up`, `link_error_recovery`, `phy_test`.
    physical_state: String,
    /// The link layer: `Ethernet` or `InfiniBand`.
    link_layer: &'static str,
    /// The name of its network device, in the network namespace of that device.
    #[serde(skip_serializing_if = "Option::is_none")]
    netdev: Option<String>,
    /// The link speed in bits per second; of a VF, that of its PF.
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<u64>,
    /// The GID table.
    #[serde(skip_serializing_if = "Option::is_none")]
    gids: Option<GidTableView>,
    /// The counters since the driver was loaded.
    counters: CountersView,
}

/// The GID table of a port.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GidTableView {
    /// The size of the table, in entries.
    capacity: usize,
    /// The entries in use.
    entries: Vec<GidView>,
}

/// An entry of a GID table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GidView {
    /// The GID index, as applications use it.
    index: u32,
    /// The GID type: `IB`, `RoCE v1`, `RoCE v2`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The GID as an IPv6 address; an IPv4 address is mapped, like `::ffff:172.81.0.100`.
    address: String,
    /// The network device whose address it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    netdev: Option<String>,
    /// The pod that has the address.
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
            process: reading.process.as_deref().cloned(),
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
