//! Tests that need SR-IOV and RDMA. They run in the lab's virtual machine (`hack/test lab`), with the drivers of its kernel.
//!
//! All tests share the devices of the machine, so one test runs at a time (`--test-threads=1`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod bootstrap;
mod busy;
mod char_device_numbers;
mod cli;
mod containerd;
mod device_list;
mod device_plugin;
mod doctor;
mod early_late;
mod faults;
mod fleet;
mod foreign_state;
mod gc;
mod go_back;
mod go_ib_pod;
mod go_infiniband;
mod go_links;
mod go_migration;
mod go_pod;
mod healthy_machine;
mod hostile;
mod ib_passthrough;
mod ib_sriov;
mod ifacer;
mod ifacer_bond;
mod ifacer_gc;
mod ipoib;
mod ipvlan;
mod isolation;
mod kernel_requests;
mod link_settings;
mod lossless;
mod metrics;
mod multus;
mod names;
mod other_networks;
mod parity;
mod privileges;
mod rails;
mod rdma;
mod readme;
mod recover;
mod resources;
mod scalable_functions;
mod shared;
mod sriov;
mod sriov_addresses;
mod sriov_link_index;
mod sriov_settings;
mod stale;
mod unbound_vf;
