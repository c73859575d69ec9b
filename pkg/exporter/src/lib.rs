//! Collects a node's RDMA devices, counters and pods, and exposes them as metric families.
//!
//! An [`Exporter`] creates one [`NodeSnapshot`] per collection. A collection has these steps:
//!
//! 1. List the pods (`pods`) and the network namespaces with devices (`netns_target`), and search those of devices that are missing
//!    (`netns_discovery`).
//! 2. Read every device in every namespace with several workers (`work_queue`, `netns_sockets`, `reader`): netlink, sysfs,
//!    ethtool.
//! 3. Find the owners of each device's objects, and thus of its traffic (`resource_usage`).
//! 4. Map the driver's counters to metrics (`catalogue`, `counter_layout`, `counter_values`), and attribute their increments
//!    to pods (`counter_history`).
//! 5. Write the metric families (`families`).
//!
//! The exporter starts no process, changes nothing on the node, and keeps no file open that would keep a pod's network
//! namespace alive.

#![forbid(unsafe_code)]

mod addresses;
mod attribution;
mod catalogue;
mod cm_counters;
mod collect_error;
mod collector_health;
mod collector_set;
mod common_totals;
mod costly_readings;
mod counter_files;
mod counter_history;
mod counter_layout;
mod counter_sets;
mod counter_values;
mod device_info;
mod device_reading;
mod device_resources;
mod exporter;
mod families;
mod gid_schedule;
mod name_filter;
mod netns_discovery;
mod netns_sockets;
mod netns_target;
mod node_snapshot;
mod options;
mod physical_state;
mod pods;
mod port_rate;
mod process_info;
mod psn;
mod reader;
mod resource_health;
mod resource_usage;
mod rotation;
mod traffic_class;
mod work_queue;

pub use attribution::Attribution;
pub use cm_counters::CmCounters;
pub use collector_health::CollectorStatus;
pub use collector_set::{Collector, CollectorSet, UnknownCollector};
pub use device_info::DeviceInfo;
pub use exporter::Exporter;

pub use collect_error::{CollectError, ErrorReason};
pub use common_totals::{CommonTotals, PriorityTotals};
pub use counter_history::saved::{CounterSink, save_counters};
pub use device_reading::{DeviceReading, PodInfo, PortReading, RawCounters};
pub use device_resources::DeviceResources;
pub use name_filter::NameFilter;
pub use node_snapshot::{
    DeviceSnapshot, NoWorkloadResolver, NodeSnapshot, PodTraffic, Workload, WorkloadResolver,
};
pub use options::ExporterOptions;
pub use physical_state::{PcieState, PhysicalState};
pub use process_info::ProcessInfo;
pub use resource_health::{ResourceHealth, ResourceHealthStore, UnhealthyDevice};
pub use resource_usage::{DeviceUsage, ResourceHolder, ResourceShare};
