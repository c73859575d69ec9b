//! What one collection found, for the exposition and for people.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::SystemTime,
};

use exposition::Exposition;
use kubepods::RdmaUsage;
use podmap::Entry;
use rdma::NetnsMode;
use serde::Serialize;

use crate::{
    Attribution, CollectError, Collector, CollectorStatus, DeviceReading, DeviceUsage, ErrorReason, PodInfo,
    PortReading, ResourceHolder, counter_history::CounterHistory, counter_layout::CounterLayouts,
    counter_values::CounterValues,
};

/// What one collection found.
#[derive(Debug)]
pub struct NodeSnapshot {
    /// What the node is called.
    pub node: String,
    /// When it began.
    pub taken: SystemTime,
    /// Whether the kernel has RDMA at all; without it nothing is read.
    pub has_rdma: bool,
    /// The node's RDMA mode, if the kernel knows modes.
    pub mode: Option<NetnsMode>,
    /// The devices, the node's own first.
    pub devices: Vec<DeviceSnapshot>,
    /// The pod map.
    pub entries: Arc<[Entry]>,
    /// The pods that have something, and what owns them.
    pub pods: BTreeMap<Arc<PodInfo>, Option<Arc<Workload>>>,
    /// What pods have done, on each port and by how that is known.
    pub traffic: Vec<PodTraffic>,
    /// How full the pools of addresses are.
    pub addresses: Vec<ipam::PoolUsage>,
    /// How each collector that ran did its work.
    pub outcomes: BTreeMap<Collector, CollectorStatus>,
    /// What could not be read.
    pub troubles: Vec<CollectError>,
    /// As metric families.
    pub exposition: Exposition,
    pub(crate) cgroups: Vec<CgroupUsage>,
    pub(crate) errors: Vec<((Collector, ErrorReason), u64)>,
}

/// One device, and whose it is.
#[derive(Debug)]
pub struct DeviceSnapshot {
    /// What was read.
    pub reading: DeviceReading,
    /// Who uses it, if that could be seen.
    pub usage: Option<DeviceUsage>,
    /// The counters of each port, in the order of the reading's ports.
    pub(crate) sheets: Vec<CounterValues>,
    /// The counters of the device as a whole, if it has any.
    pub(crate) sheet: Option<CounterValues>,
}

/// What a pod has done on a port since it was first seen there.
#[derive(Debug, Clone)]
pub struct PodTraffic {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The RDMA device.
    pub device: String,
    /// The port, from 1.
    pub port: u32,
    /// How it is known.
    pub attribution: Attribution,
    /// What was counted.
    pub(crate) sheet: CounterValues,
}

/// What a pod's cgroup has of a device, by the kernel's `rdma` controller.
#[derive(Debug)]
pub(crate) struct CgroupUsage {
    pub(crate) pod: Arc<PodInfo>,
    pub(crate) usage: RdmaUsage,
}

/// The workload that a pod belongs to: a Deployment, a Job, whatever is at the top.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// `apps/v1`.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Knows which workload a pod belongs to.
pub trait WorkloadResolver: Send + Sync + fmt::Debug {
    /// The workload at the top, if it is known by now. Must not wait.
    fn owner(&self, pod: &PodInfo) -> Option<Arc<Workload>>;

    /// What cannot be asked at present, for the collector [`Collector::Owners`]. Must not wait.
    fn troubles(&self) -> Vec<CollectError> {
        Vec::new()
    }
}

/// Knows none: there is no API server.
#[derive(Debug, Clone, Copy)]
pub struct NoWorkloadResolver;

impl WorkloadResolver for NoWorkloadResolver {
    fn owner(&self, _: &PodInfo) -> Option<Arc<Workload>> {
        None
    }
}

impl DeviceSnapshot {
    /// A device whose counters are as they were read. Those of a collection go on where the driver's begin anew.
    pub fn new(reading: DeviceReading, usage: Option<DeviceUsage>) -> Self {
        let mut layouts = CounterLayouts::default();
        let sheets =
            reading.ports.iter().map(|port| CounterValues::of_port(port, &mut layouts, None)).collect();
        let sheet = Some(CounterValues::of_device(&reading.counters, &mut layouts, None));
        Self { reading, usage, sheets, sheet }
    }
}

impl PodTraffic {
    /// A pod's, of counters as they were read.
    pub fn new(pod: Arc<PodInfo>, device: &str, attribution: Attribution, counted: &PortReading) -> Self {
        let sheet = CounterValues::of_port(counted, &mut CounterLayouts::default(), None);
        Self { pod, device: device.to_owned(), port: counted.port.port, attribution, sheet }
    }
}

impl NodeSnapshot {
    /// A report of a node without RDMA.
    pub fn new(node: String, taken: SystemTime) -> Self {
        Self {
            node,
            taken,
            has_rdma: false,
            mode: None,
            devices: Vec::new(),
            entries: Arc::default(),
            addresses: Vec::new(),
            pods: BTreeMap::new(),
            traffic: Vec::new(),
            outcomes: BTreeMap::new(),
            troubles: Vec::new(),
            exposition: Exposition::default(),
            cgroups: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Gathers every pod that something is told of, with its owner.
    pub(crate) fn name_pods(&mut self, ledger: &CounterHistory, owners: &dyn WorkloadResolver) {
        let in_pods = self.devices.iter().filter_map(|device| device.reading.pod.clone());
        let mapped = self.entries.iter().filter_map(|entry| entry.pod.as_ref());
        let mapped = mapped.map(|pod| Arc::new(PodInfo::from(pod)));
        let usages = self.devices.iter().filter_map(|device| device.usage.as_ref());
        let users = usages.flat_map(|usage| usage.shares.keys()).filter_map(|holder| match holder {
            ResourceHolder::Pod(pod) => Some(pod.clone()),
            ResourceHolder::Node | ResourceHolder::Unknown => None,
        });
        let counted = ledger.accounts().keys().cloned();
        let all = in_pods.chain(mapped).chain(users).chain(counted);
        self.pods = all.map(|pod| (pod.clone(), owners.owner(&pod))).collect();
    }

    /// What the ledger has of pods.
    pub(crate) fn retain_traffic(&mut self, ledger: &CounterHistory) {
        let accounts = ledger.accounts().iter().flat_map(|(pod, accounts)| {
            accounts.iter().map(move |((device, port, attribution), sheet)| PodTraffic {
                pod: pod.clone(),
                device: device.clone(),
                port: *port,
                attribution: *attribution,
                sheet: sheet.clone(),
            })
        });
        self.traffic = accounts.collect();
    }

    /// Whose a GID of a device is: the pod's in whose namespace the device is, or that was given the address.
    pub fn gid_owner(&self, device: &DeviceReading, gid: Ipv6Addr) -> Option<Arc<PodInfo>> {
        if let Some(pod) = &device.pod {
            return Some(pod.clone());
        }
        let has = |entry: &&Entry| {
            entry.rdma.ibdev.as_deref() == Some(&device.device.name)
                && entry.network.ips.iter().any(|ip| supersedes(gid, ip))
        };
        let entry = self.entries.iter().find(has)?;
        entry.pod.as_ref().map(|pod| Arc::new(PodInfo::from(pod)))
    }
}

/// Whether a GID stands for an address with a prefix length.
fn supersedes(gid: Ipv6Addr, ip: &str) -> bool {
    match ip.split('/').next().unwrap_or_default().parse() {
        Ok(IpAddr::V4(v4)) => v4.to_ipv6_mapped() == gid,
        Ok(IpAddr::V6(v6)) => v6 == gid,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_stands_for_an_address_of_either_family() {
        let gid = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        assert!(supersedes(gid("::ffff:172.81.0.100"), "172.81.0.100/16"));
        assert!(supersedes(gid("fd00:81::100"), "fd00:81::100/64"));
        assert!(!supersedes(gid("::ffff:172.81.0.100"), "172.81.0.101/16"));
        assert!(!supersedes(gid("::"), ""));
    }
}
