//! The targets, one file each.

mod channel;
mod check;
mod configuration;
mod exposition;
mod pools;
mod prev_result;
mod ranges;
mod rdma_netlink;
mod redaction;
mod route_netlink;
mod state_files;
mod texts;
mod web_configuration;

use crate::FuzzTarget;

/// Every target, by name.
pub const TARGETS: [FuzzTarget; 13] = [
    ("channel", channel::run),
    ("check", check::run),
    ("configuration", configuration::run),
    ("exposition", exposition::run),
    ("pools", pools::run),
    ("prev_result", prev_result::run),
    ("ranges", ranges::run),
    ("rdma_netlink", rdma_netlink::run),
    ("redaction", redaction::run),
    ("route_netlink", route_netlink::run),
    ("state_files", state_files::run),
    ("texts", texts::run),
    ("web_configuration", web_configuration::run),
];
