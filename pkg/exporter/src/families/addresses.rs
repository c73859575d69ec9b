//! Pools of addresses: how full they are.

use exposition::{Exposition, Labels};

use super::gauge;
use crate::Report;

pub(super) fn tell(families: &mut Exposition, report: &Report, node: &Labels) {
    for usage in &report.addresses {
        let labels = || node.more().with("pool", usage.pool.as_str()).done();
        let help = "Addresses that a pool of the node's IPAM plugin can give here.";
        gauge(families, "rdma_ipam_pool_addresses", help).add(labels(), usage.addresses);
        let help = "Addresses of a pool that are given to pods, or that dead pods left.";
        gauge(families, "rdma_ipam_pool_addresses_claimed", help).add(labels(), usage.claimed);
    }
}
