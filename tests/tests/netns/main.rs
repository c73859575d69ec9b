//! The built plugins in namespaces of the running kernel, inspected with `ip`. Root is required.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "what a failing test was about")]

mod address_conflict;
mod budget;
mod call_log;
mod check;
mod cli_usage;
mod cni_gc;
mod damage;
mod default_route;
mod delegation;
mod deletion;
mod disk;
mod doctor;
mod duplicate;
mod edge_cases;
mod faults;
mod gc;
mod gc_every;
mod gc_lost;
mod gc_record;
mod go_plugins;
mod host_local;
mod hostile;
mod indexes;
mod install;
mod install_fixture;
mod invariants;
mod ipam;
mod ipam_command;
mod ipam_full;
mod ipam_identity;
mod ipam_pools;
mod ipam_requested;
mod ipam_selection;
mod ipam_spiderpool;
mod kernel_requests;
mod locks;
mod macvlan;
mod master;
mod mesh;
mod multus;
mod names;
mod other_networks;
mod ownership;
mod parallel;
mod parameters;
mod pods;
mod privileges;
mod quarantine;
mod rail_edge_cases;
mod rails;
mod reboot;
mod routes;
mod status;
