//! Reads a node's RDMA devices, counters and pods, and tells of them in metric families.
//!
//! An [`Exporter`] makes one [`Report`] after another. A collection goes so:
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
pub use collector::{Collector, Collectors, UnknownCollector};
pub use exporter::Exporter;
pub use facts::Facts;
pub use filter::DeviceFilter;
pub use health::Outcome;

pub use objects::Objects;
pub use reading::{Counters, DeviceReading, GidTable, Pod, PortReading};
pub use report::{DeviceReport, NoOwners, OwnerReference, Owners, PodTraffic, Report};
pub use settings::Settings;
pub use totals::{Priority, Totals};
pub use trouble::{Reason, Trouble};
pub use usage::{Holder, Share, Usage};
