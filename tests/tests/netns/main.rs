//! The built plugins in namespaces of the running kernel, looked at with `ip`. Root is required.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "what a failing test was about")]

mod aside;
mod budget;
mod check;
mod collection;
mod company;
mod damage;
mod delegation;
mod deletion;
mod disk;
mod duplicate;
mod economy;
mod faults;
mod gc;
mod gc_lost;
mod host_local;
mod hostile;
mod indexes;
mod install;
mod invariants;
mod ipam;
mod ipam_full;
mod ipam_identity;
mod ipam_pools;
mod ipam_requested;
mod ipam_selection;
mod locks;
mod macvlan;
mod master;
mod names;
mod odd;
mod ownership;
mod parallel;
mod parameters;
mod privileges;
mod reboot;
mod routes;
mod status;
