//! What one collection found, for the exposition and for people.

use std::{collections::BTreeMap, fmt, sync::Arc, time::SystemTime};

use exposition::Exposition;
use kubepods::RdmaUsage;
use podmap::Entry;
use rdma::NetnsMode;
use serde::Serialize;

use crate::{
    Collector, DeviceReading, Holder, Pod, Reason, Usage, health::Outcome, layout::Sheet, ledger::Ledger,
};

/// What one collection found.
#[derive(Debug)]
pub struct Report {
    /// What the node is called.
    pub node: String,
    /// When it began.
    pub taken: SystemTime,
    /// The node's RDMA mode, if the kernel knows modes.
    pub mode: Option<NetnsMode>,
    /// The devices, the node's own first.
    pub devices: Vec<DeviceReport>,
    /// The pod map.
    pub entries: Vec<Entry>,
    /// The pods that have something, and what owns them.
    pub pods: BTreeMap<Arc<Pod>, Option<Arc<OwnerReference>>>,
    /// As metric families.
    pub exposition: Exposition,
    pub(crate) cgroups: Vec<CgroupUse>,
    pub(crate) outcomes: BTreeMap<Collector, Outcome>,
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
    /// The counters of the device as a whole.
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
}

/// Knows none: there is no API server.
#[derive(Debug, Clone, Copy)]
pub struct NoOwners;

impl Owners for NoOwners {
    fn owner(&self, _: &Pod) -> Option<Arc<OwnerReference>> {
        None
    }
}

impl Report {
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
}
