//! RDMA devices as resources of the kubelet.
//!
//! [`Config`] reads the files of sriov-network-device-plugin and k8s-rdma-shared-dev-plugin, [`NodeDevices`] lists the
//! devices of a node, and [`ResourceDevices`] assigns them to resources. [`preferred`] chooses the devices of a container.

#![forbid(unsafe_code)]

mod allocation;
mod config;
mod device;
mod device_info;
mod device_use;
mod discovery;
mod fabric;
pub mod health;
mod node_devices;
mod node_reader;
mod node_state;
mod pci_path;
mod pkey;
mod pod_files;
mod pod_use;
mod pool;
pub mod preferred;
mod report;
mod resource_devices;
mod resource_files;
mod resource_name;
mod selector;
mod vf_selection;

pub use allocation::{Allocation, AllocationError};
pub use config::{Config, ExclusiveType, Finding, InvalidConfig, ReadOptions, ResourceMode, ResourceSpec};
pub use device::{LinkType, NodeDevice, PhysicalFunction, PortState};
pub use device_info::DeviceInfoDirectory;
pub use device_use::{DeviceUse, Holder, OtherAllocation};
pub use fabric::Fabric;
pub use node_devices::NodeDevices;
pub use node_reader::{NodeReadError, NodeReader, NodeReading};
pub use node_state::NodeState;
pub use pci_path::PciPath;
pub use pkey::{InvalidPkey, Pkey};
pub use pod_files::PodFiles;
pub use pool::{PoolOptions, ResourcePool};
pub use report::{DeviceReport, ExcludedDevice, NodeReport};
pub use resource_devices::{Exclusion, ResourceDevices};
pub use resource_files::{FileFinding, ResourceFileError, ResourceFiles};
pub use resource_name::{InvalidResourceName, ResourceName};
pub use selector::{Mismatch, Selector};
pub use vf_selection::{InvalidVfSelection, VfSelection};
