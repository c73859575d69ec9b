//! Usage of address pools.

use exposition::{Exposition, LabelSet};

use super::family_type::gauge;
use crate::NodeSnapshot;

pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    for usage in &report.addresses {
        let labels = || node.builder().with("pool", usage.pool.as_str()).build();
        let help = "Addresses that a pool of silkrail-ipam can assign on this node.";
        gauge(families, "rdma_ipam_pool_addresses", help).add(labels(), usage.addresses);
        let help = "Addresses of a pool in use by pods, including stale ones of dead pods.";
        gauge(families, "rdma_ipam_pool_addresses_claimed", help).add(labels(), usage.claimed);
    }
}
