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

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::families::tests::lines_with;

    #[test]
    fn each_pool_has_its_addresses_and_those_in_use() {
        let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
        report.addresses = [("a", 250, 3), ("b", 10, 10)]
            .map(|(pool, addresses, claimed)| ipam::PoolUsage {
                pool: pool.parse().unwrap(),
                family: ipam::IpFamily::V4,
                addresses,
                claimed,
            })
            .into();
        let expected = [
            r#"rdma_ipam_pool_addresses{pool="a"} 250"#,
            r#"rdma_ipam_pool_addresses{pool="b"} 10"#,
            r#"rdma_ipam_pool_addresses_claimed{pool="a"} 3"#,
            r#"rdma_ipam_pool_addresses_claimed{pool="b"} 10"#,
        ];
        assert_eq!(lines_with(&report, "rdma_ipam"), expected);
    }
}
