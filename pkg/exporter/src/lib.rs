//! Reads a node's RDMA devices, counters and pods, and tells of them in metric families.
//!
//! An [`Exporter`] makes one [`NodeSnapshot`] after another. A collection goes so:
//!
//! 1. which pods there are (`pods`), and so which namespaces have devices (`place`);
//! 2. several workers read every device in every namespace (`board`, `session`, `reader`): netlink, sysfs, ethtool;
//! 3. whose the objects of each device are (`usage`), and so whose its traffic is;
//! 4. what each counter means on any driver (`catalogue`, `layout`, `sheet`), and whose its increments are (`ledger`);
//! 5. metric families (`families`).
//!
//! It starts no process, changes nothing on the node, and keeps nothing open that would keep a pod's namespace alive.

#![forbid(unsafe_code)]

mod addresses;
mod attribution;
mod board;
mod catalogue;
mod collector;
mod counter_files;
mod counter_sets;
mod exporter;
mod facts;
mod families;
mod filter;
mod gid_schedule;
mod health;
mod layout;
mod ledger;
mod objects;
mod place;
mod pods;
mod psn;
mod rate;
mod reader;
mod reading;
mod report;
mod session;
mod settings;
mod sheet;
mod totals;
mod traffic_class;
mod trouble;
mod usage;

pub use attribution::Attribution;
pub use collector::{Collector, CollectorSet, UnknownCollector};
pub use exporter::Exporter;
pub use facts::DeviceInfo;
pub use filter::DeviceFilter;
pub use health::CollectorStatus;

pub use objects::DeviceResources;
pub use reading::{DeviceReading, GidTable, PodInfo, PortReading, RawCounters};
pub use report::{DeviceSnapshot, NoWorkloadResolver, NodeSnapshot, PodTraffic, Workload, WorkloadResolver};
pub use settings::ExporterOptions;
pub use totals::{CommonTotals, PriorityTotals};
pub use trouble::{CollectError, ErrorReason};
pub use usage::{DeviceUsage, ResourceHolder, ResourceShare};
