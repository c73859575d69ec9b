//! Pools of addresses: how full they are.

use exposition::{Exposition, LabelSet};

use super::gauge;
use crate::NodeSnapshot;

pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    for usage in &report.addresses {
        let labels = || node.builder().with("pool", usage.pool.as_str()).build();
        let help = "Addresses that a pool of the node's IPAM plugin can give here.";
        gauge(families, "rdma_ipam_pool_addresses", help).add(labels(), usage.addresses);
        let help = "Addresses of a pool that are given to pods, or that dead pods left.";
        gauge(families, "rdma_ipam_pool_addresses_claimed", help).add(labels(), usage.claimed);
    }
}
