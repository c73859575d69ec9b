//! Reads a node's RDMA devices, counters and pods, and tells of them in metric families.
//!
//! An [`Exporter`] makes one [`NodeSnapshot`] after another. A collection goes so:
//!
//! 1. which pods there are (`pods`), and so which namespaces have devices (`netns_target`);
//! 2. several workers read every device in every namespace (`work_queue`, `netns_sockets`, `reader`): netlink, sysfs, ethtool;
//! 3. whose the objects of each device are (`resource_usage`), and so whose its traffic is;
//! 4. what each counter means on any driver (`catalogue`, `counter_layout`, `counter_values`), and whose its increments are (`counter_history`);
//! 5. metric families (`families`).
//!
//! It starts no process, changes nothing on the node, and keeps nothing open that would keep a pod's namespace alive.

#![forbid(unsafe_code)]

mod addresses;
mod attribution;
mod catalogue;
mod collect_error;
mod collector_health;
mod collector_set;
mod common_totals;
mod counter_files;
mod counter_history;
mod counter_layout;
mod counter_sets;
mod counter_values;
mod device_filter;
mod device_info;
mod device_reading;
mod device_resources;
mod exporter;
mod families;
mod gid_schedule;
mod netns_sockets;
mod netns_target;
mod node_snapshot;
mod options;
mod pods;
mod port_rate;
mod psn;
mod reader;
mod resource_usage;
mod traffic_class;
mod work_queue;

pub use attribution::Attribution;
pub use collector_health::CollectorStatus;
pub use collector_set::{Collector, CollectorSet, UnknownCollector};
pub use device_filter::DeviceFilter;
pub use device_info::DeviceInfo;
pub use exporter::Exporter;

pub use collect_error::{CollectError, ErrorReason};
pub use common_totals::{CommonTotals, PriorityTotals};
pub use device_reading::{DeviceReading, GidTable, PodInfo, PortReading, RawCounters};
pub use device_resources::DeviceResources;
pub use node_snapshot::{
    DeviceSnapshot, NoWorkloadResolver, NodeSnapshot, PodTraffic, Workload, WorkloadResolver,
};
pub use options::ExporterOptions;
pub use resource_usage::{DeviceUsage, ResourceHolder, ResourceShare};
