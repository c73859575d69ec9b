//! The result of a collection, for the exposition and for web pages.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::SystemTime,
};

use doctor_record::DoctorRecord;
use exposition::Exposition;
use gc_record::GcRecord;
use kubepods::RdmaUsage;
use podmap::Entry;
use rdma::NetnsMode;
use serde::Serialize;

use crate::{
    Attribution, CollectError, Collector, CollectorStatus, DeviceReading, DeviceUsage, ErrorReason, PodInfo,
    PortReading, ResourceHealth, ResourceHolder, counter_history::CounterHistory,
    counter_layout::CounterLayouts, counter_values::CounterValues,
};

/// The result of one collection.
#[derive(Debug)]
pub struct NodeSnapshot {
    /// The name of the Kubernetes node.
    pub node: String,
    /// The start of the collection.
    pub taken: SystemTime,
    /// Whether the kernel supports RDMA; otherwise no device is read.
    pub has_rdma: bool,
    /// The RDMA mode of the node; `None` if the kernel is too old to report it.
    pub mode: Option<NetnsMode>,
    /// The devices, those in the host namespace first.
    pub devices: Vec<DeviceSnapshot>,
    /// The entries of the pod map.
    pub entries: Arc<[Entry]>,
    /// The pods with devices, objects or traffic, and their workloads.
    pub pods: BTreeMap<Arc<PodInfo>, Option<Arc<Workload>>>,
    /// The traffic of pods, by port and attribution.
    pub traffic: Vec<PodTraffic>,
    /// The usage of address pools.
    pub addresses: Vec<ipam::PoolUsage>,
    /// The runs of `silkrail gc`; `None` if there was none since the boot.
    pub gc: Option<GcRecord>,
    /// The findings of `silkrail doctor --record`; `None` if there was none since the boot.
    pub doctor: Option<DoctorRecord>,
    /// The devices that silkraild offers to the kubelet.
    pub resources: Vec<ResourceHealth>,
    /// The status of each collector that ran.
    pub outcomes: BTreeMap<Collector, CollectorStatus>,
    /// The values that could not be read.
    pub errors: Vec<CollectError>,
    /// The metric families.
    pub exposition: Exposition,
    pub(crate) cgroups: Vec<CgroupUsage>,
    pub(crate) error_counts: Vec<((Collector, ErrorReason), u64)>,
    /// The number of devices in network namespaces that were not found.
    pub(crate) unseen_devices: usize,
}

/// A device and its users.
#[derive(Debug)]
pub struct DeviceSnapshot {
    /// The values that were read.
    pub reading: DeviceReading,
    /// The users of the device; `None` if they could not be determined.
    pub usage: Option<DeviceUsage>,
    /// The counters of each port, in the order of the reading's ports.
    pub(crate) port_counters: Vec<CounterValues>,
    /// The counters of the device as a whole, if it has any.
    pub(crate) counter_values: Option<CounterValues>,
}

/// The traffic of a pod on a port since it was first seen there.
#[derive(Debug, Clone)]
pub struct PodTraffic {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The RDMA device, such as `mlx5_0`.
    pub device: String,
    /// The port number, starting at 1.
    pub port: u32,
    /// How the traffic is attributed to the pod.
    pub attribution: Attribution,
    /// The counters.
    pub(crate) counter_values: CounterValues,
}

/// The usage of a device by a pod, from the `rdma` cgroup controller.
#[derive(Debug)]
pub(crate) struct CgroupUsage {
    pub(crate) pod: Arc<PodInfo>,
    pub(crate) usage: RdmaUsage,
}

/// The workload that a pod belongs to: its topmost owner, such as a Deployment or a Job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// The API version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The namespace of the workload.
    pub namespace: String,
    /// The name of the workload.
    pub name: String,
}

/// Resolves the workload of a pod.
pub trait WorkloadResolver: Send + Sync + fmt::Debug {
    /// Returns the workload of the pod if it is already known. Must not block.
    fn owner(&self, pod: &PodInfo) -> Option<Arc<Workload>>;

    /// Returns the current errors, for the collector [`Collector::Owners`]. Must not block.
    fn errors(&self) -> Vec<CollectError> {
        Vec::new()
    }
}

/// A resolver without an API server, which knows no workloads.
#[derive(Debug, Clone, Copy)]
pub struct NoWorkloadResolver;

impl WorkloadResolver for NoWorkloadResolver {
    fn owner(&self, _: &PodInfo) -> Option<Arc<Workload>> {
        None
    }
}

impl DeviceSnapshot {
    /// Creates a snapshot whose counters are the values of the reading, without corrections for wraparound.
    pub fn new(reading: DeviceReading, usage: Option<DeviceUsage>) -> Self {
        let mut layouts = CounterLayouts::default();
        let port_counters =
            reading.ports.iter().map(|port| CounterValues::of_port(port, &mut layouts, None)).collect();
        let counter_values = Some(CounterValues::of_device(&reading.counters, &mut layouts, None));
        Self { reading, usage, port_counters, counter_values }
    }
}

impl PodTraffic {
    /// Creates the traffic of a pod from a reading of a port.
    pub fn new(pod: Arc<PodInfo>, device: &str, attribution: Attribution, counted: &PortReading) -> Self {
        let counter_values = CounterValues::of_port(counted, &mut CounterLayouts::default(), None);
        Self { pod, device: device.to_owned(), port: counted.port.port, attribution, counter_values }
    }
}

impl NodeSnapshot {
    /// Creates the snapshot of a node without RDMA.
    pub fn new(node: String, taken: SystemTime) -> Self {
        Self {
            node,
            taken,
            has_rdma: false,
            mode: None,
            devices: Vec::new(),
            entries: Arc::default(),
            addresses: Vec::new(),
            gc: None,
            doctor: None,
            resources: Vec::new(),
            pods: BTreeMap::new(),
            traffic: Vec::new(),
            outcomes: BTreeMap::new(),
            errors: Vec::new(),
            exposition: Exposition::default(),
            cgroups: Vec::new(),
            error_counts: Vec::new(),
            unseen_devices: 0,
        }
    }

    /// Collects all pods of the snapshot and resolves their workloads.
    pub(crate) fn set_pods(&mut self, history: &CounterHistory, owners: &dyn WorkloadResolver) {
        let in_pods = self.devices.iter().filter_map(|device| device.reading.pod.clone());
        let mapped = self.entries.iter().filter_map(|entry| entry.pod.as_ref());
        let mapped = mapped.map(|pod| Arc::new(PodInfo::from(pod)));
        let usages = self.devices.iter().filter_map(|device| device.usage.as_ref());
        let users = usages.flat_map(|usage| usage.shares.keys()).filter_map(|holder| match holder {
            ResourceHolder::Pod(pod) => Some(pod.clone()),
            ResourceHolder::Node | ResourceHolder::Unknown => None,
        });
        let counted = history.accounts().keys().cloned();
        let all = in_pods.chain(mapped).chain(users).chain(counted);
        self.pods = all.map(|pod| (pod.clone(), owners.owner(&pod))).collect();
    }

    /// Copies the accounts of pods from the counter history.
    pub(crate) fn set_traffic(&mut self, history: &CounterHistory) {
        let accounts = history.accounts().iter().flat_map(|(pod, accounts)| {
            accounts.iter().map(move |((device, port, attribution), counter_values)| PodTraffic {
                pod: pod.clone(),
                device: device.clone(),
                port: *port,
                attribution: *attribution,
                counter_values: counter_values.clone(),
            })
        });
        self.traffic = accounts.collect();
    }

    /// Returns the owner of a GID of a device: the pod with the device in its network namespace, or with the address.
    pub fn gid_owner(&self, device: &DeviceReading, gid: Ipv6Addr) -> Option<Arc<PodInfo>> {
        if let Some(pod) = &device.pod {
            return Some(pod.clone());
        }
        let has = |entry: &&Entry| {
            entry.rdma.ibdev.as_deref() == Some(&device.device.name)
                && entry.network.ips.iter().any(|ip| is_gid_of(gid, ip))
        };
        let entry = self.entries.iter().find(has)?;
        entry.pod.as_ref().map(|pod| Arc::new(PodInfo::from(pod)))
    }
}

/// Whether the GID is that of an address with a prefix length, such as `10.0.0.1/16`.
fn is_gid_of(gid: Ipv6Addr, ip: &str) -> bool {
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
    fn gids_of_ipv4_and_ipv6_addresses_match() {
        let gid = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        assert!(is_gid_of(gid("::ffff:172.81.0.100"), "172.81.0.100/16"));
        assert!(is_gid_of(gid("fd00:81::100"), "fd00:81::100/64"));
        assert!(!is_gid_of(gid("::ffff:172.81.0.100"), "172.81.0.101/16"));
        assert!(!is_gid_of(gid("::"), ""));
    }

    #[test]
    fn a_gid_belongs_to_the_pod_with_its_address_on_the_same_device() {
        let entry = |pod: &str, device: &str, ips: &[&str]| {
            let mut entry = Entry::new("macvlan", "c1@net1".parse().unwrap());
            entry.pod = Some(podmap::PodRef { namespace: "ml".into(), name: pod.into(), uid: None });
            entry.rdma.ibdev = Some(device.into());
            entry.network.ips = ips.iter().map(|ip| (*ip).to_owned()).collect();
            entry
        };
        let mut report = NodeSnapshot::new("n".into(), SystemTime::now());
        report.entries = [
            entry("other", "mlx5_1", &["172.81.0.100/16"]),
            entry("first", "mlx5_0", &["172.81.0.99/16", "fd00:81::99/64"]),
            entry("second", "mlx5_0", &["172.81.0.100/16", "fd00:81::100/64"]),
        ]
        .into();
        let mut device = crate::families::tests::device(Vec::new());
        device.device.name = "mlx5_0".into();
        let owner = |report: &NodeSnapshot, device: &DeviceReading, gid: &str| {
            report.gid_owner(device, gid.parse().unwrap()).map(|pod| pod.name.clone())
        };
        for (gid, pod) in [
            ("::ffff:172.81.0.100", Some("second")),
            ("fd00:81::100", Some("second")),
            ("fd00:81::99", Some("first")),
            ("fe80::1", None),
        ] {
            assert_eq!(owner(&report, &device, gid).as_deref(), pod, "{gid}");
        }
        let pod = PodInfo { namespace: "ml".into(), name: "whole".into(), uid: None };
        device.pod = Some(pod.into());
        assert_eq!(owner(&report, &device, "fe80::1").as_deref(), Some("whole"));
    }

    #[test]
    fn the_pods_of_a_node_are_those_with_a_device_an_attachment_objects_or_traffic() {
        let pod = |name: &str| PodInfo { namespace: "ml".into(), name: name.into(), uid: None };
        let mut report = NodeSnapshot::new("n".into(), SystemTime::now());
        let mut in_pod = crate::families::tests::device(Vec::new());
        in_pod.pod = Some(pod("exclusive").into());
        let shares = [ResourceHolder::Pod(pod("user").into()), ResourceHolder::Node, ResourceHolder::Unknown]
            .map(|holder| (holder, crate::ResourceShare::default()));
        let usage = DeviceUsage { shares: shares.into(), kernel_connects: false };
        report.devices = vec![
            DeviceSnapshot::new(in_pod, None),
            DeviceSnapshot::new(crate::families::tests::device(Vec::new()), Some(usage)),
        ];
        let mut entry = Entry::new("macvlan", "c1@net1".parse().unwrap());
        entry.pod = Some(podmap::PodRef { namespace: "ml".into(), name: "mapped".into(), uid: None });
        report.entries = [entry].into();
        let mut history = CounterHistory::default();
        let counted = CounterValues::of_device(&Default::default(), &mut CounterLayouts::default(), None);
        history.add_to_account(pod("counted").into(), ("d0".into(), 1, Attribution::Psn), &counted);
        report.set_pods(&history, &NoWorkloadResolver);
        let names: Vec<&str> = report.pods.keys().map(|pod| &*pod.name).collect();
        assert_eq!(names, ["counted", "exclusive", "mapped", "user"]);
    }
}
