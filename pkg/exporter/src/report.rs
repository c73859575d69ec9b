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
    Attribution, Collector, DeviceReading, Holder, Outcome, Pod, PortReading, Reason, Trouble, Usage,
    layout::Layouts, ledger::Ledger, sheet::Sheet,
};

/// What one collection found.
#[derive(Debug)]
pub struct Report {
    /// What the node is called.
    pub node: String,
    /// When it began.
    pub taken: SystemTime,
    /// Whether the kernel has RDMA at all; without it nothing is read.
    pub has_rdma: bool,
    /// The node's RDMA mode, if the kernel knows modes.
    pub mode: Option<NetnsMode>,
    /// The devices, the node's own first.
    pub devices: Vec<DeviceReport>,
    /// The pod map.
    pub entries: Arc<[Entry]>,
    /// The pods that have something, and what owns them.
    pub pods: BTreeMap<Arc<Pod>, Option<Arc<OwnerReference>>>,
    /// What pods have done, on each port and by how that is known.
    pub traffic: Vec<PodTraffic>,
    /// How full the pools of addresses are.
    pub addresses: Vec<ipam::PoolUsage>,
    /// How each collector that ran did its work.
    pub outcomes: BTreeMap<Collector, Outcome>,
    /// What could not be read.
    pub troubles: Vec<Trouble>,
    /// As metric families.
    pub exposition: Exposition,
    pub(crate) cgroups: Vec<CgroupUse>,
    pub(crate) errors: Vec<((Collector, Reason), u64)>,
}

/// One device, and whose it is.
#[derive(Debug)]
pub struct DeviceReport {
    /// What was read.
    pub reading: DeviceReading,
    /// Who uses it, if that could be seen.
    pub usage: Option<Usage>,
    /// The counters of each port, in the order of the reading's ports.
    pub(crate) sheets: Vec<Sheet>,
    /// The counters of the device as a whole, if it has any.
    pub(crate) sheet: Option<Sheet>,
}

/// What a pod has done on a port since it was first seen there.
#[derive(Debug, Clone)]
pub struct PodTraffic {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The RDMA device.
    pub device: String,
    /// The port, from 1.
    pub port: u32,
    /// How it is known.
    pub attribution: Attribution,
    /// What was counted.
    pub(crate) sheet: Sheet,
}

/// What a pod's cgroup has of a device, by the kernel's `rdma` controller.
#[derive(Debug)]
pub(crate) struct CgroupUse {
    pub(crate) pod: Arc<Pod>,
    pub(crate) usage: RdmaUsage,
}

/// The workload that a pod belongs to: a Deployment, a Job, whatever is at the top.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnerReference {
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
pub trait Owners: Send + Sync + fmt::Debug {
    /// The workload at the top, if it is known by now. Must not wait.
    fn owner(&self, pod: &Pod) -> Option<Arc<OwnerReference>>;

    /// What cannot be asked at present, for the collector [`Collector::Owners`]. Must not wait.
    fn troubles(&self) -> Vec<Trouble> {
        Vec::new()
    }
}

/// Knows none: there is no API server.
#[derive(Debug, Clone, Copy)]
pub struct NoOwners;

impl Owners for NoOwners {
    fn owner(&self, _: &Pod) -> Option<Arc<OwnerReference>> {
        None
    }
}

impl DeviceReport {
    /// A device whose counters are as they were read. Those of a collection go on where the driver's begin anew.
    pub fn new(reading: DeviceReading, usage: Option<Usage>) -> Self {
        let mut layouts = Layouts::default();
        let sheets = reading.ports.iter().map(|port| Sheet::of_port(port, &mut layouts, None)).collect();
        let sheet = Some(Sheet::of_device(&reading.counters, &mut layouts, None));
        Self { reading, usage, sheets, sheet }
    }
}

impl PodTraffic {
    /// A pod's, of counters as they were read.
    pub fn new(pod: Arc<Pod>, device: &str, attribution: Attribution, counted: &PortReading) -> Self {
        let sheet = Sheet::of_port(counted, &mut Layouts::default(), None);
        Self { pod, device: device.to_owned(), port: counted.port.port, attribution, sheet }
    }
}

impl Report {
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
    pub(crate) fn name_pods(&mut self, ledger: &Ledger, owners: &dyn Owners) {
        let in_pods = self.devices.iter().filter_map(|device| device.reading.pod.clone());
        let mapped = self.entries.iter().filter_map(|entry| entry.pod.as_ref());
        let mapped = mapped.map(|pod| Arc::new(Pod::from(pod)));
        let usages = self.devices.iter().filter_map(|device| device.usage.as_ref());
        let users = usages.flat_map(|usage| usage.shares.keys()).filter_map(|holder| match holder {
            Holder::Pod(pod) => Some(pod.clone()),
            Holder::Node | Holder::Unknown => None,
        });
        let counted = ledger.accounts().keys().cloned();
        let all = in_pods.chain(mapped).chain(users).chain(counted);
        self.pods = all.map(|pod| (pod.clone(), owners.owner(&pod))).collect();
    }

    /// What the ledger has of pods.
    pub(crate) fn keep_traffic(&mut self, ledger: &Ledger) {
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
    pub fn gid_owner(&self, device: &DeviceReading, gid: Ipv6Addr) -> Option<Arc<Pod>> {
        if let Some(pod) = &device.pod {
            return Some(pod.clone());
        }
        let has = |entry: &&Entry| {
            entry.rdma.ibdev.as_deref() == Some(&device.device.name)
                && entry.network.ips.iter().any(|ip| stands_for(gid, ip))
        };
        let entry = self.entries.iter().find(has)?;
        entry.pod.as_ref().map(|pod| Arc::new(Pod::from(pod)))
    }
}

/// Whether a GID stands for an address with a prefix length.
fn stands_for(gid: Ipv6Addr, ip: &str) -> bool {
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
        assert!(stands_for(gid("::ffff:172.81.0.100"), "172.81.0.100/16"));
        assert!(stands_for(gid("fd00:81::100"), "fd00:81::100/64"));
        assert!(!stands_for(gid("::ffff:172.81.0.100"), "172.81.0.101/16"));
        assert!(!stands_for(gid("::"), ""));
    }
}
