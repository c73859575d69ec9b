//! What needs SR-IOV and RDMA: run in the lab's machine (`hack/test lab`), on the kernel's own code.
//!
//! Devices are the machine's, so one test runs at a time (`--test-threads=1`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod bootstrap;
mod busy;
mod cli;
mod company;
mod containerd;
mod doctor;
mod economy;
mod faults;
mod fleet;
mod gc;
mod go_pod;
mod hostile;
mod ipvlan;
mod isolation;
mod late;
mod metrics;
mod names;
mod new_user;
mod numbers;
mod privileges;
mod rdma;
mod recover;
mod resources;
mod shared;
mod sriov;
mod sriov_settings;
mod stale;
mod upgrade;
