//! The address pools of the node.

use crate::{Finding, FindingId, NodeFacts, facts::pools::PoolAddress};

const BROKEN: FindingId = FindingId::new(
    "pools-broken",
    "A pool file is invalid: pods of networks that use its pools cannot start",
);
const CONTESTED: FindingId =
    FindingId::new("pools-twice", "Two pools have the same name, and neither of them is used");
const ANY_NODE: FindingId = FindingId::new(
    "pools-any-node",
    "A pool has no node: every node that has the file assigns the same addresses",
);
const FULL: FindingId =
    FindingId::new("pools-full", "A pool has no free address on this node: pods that need one wait");
const SHARED: FindingId = FindingId::new(
    "pools-of-spiderpool",
    "A pool was exported from Spiderpool, which may have assigned further addresses since then",
);
const IGNORED: FindingId = FindingId::new("pools-ignored", "A document in the pool directory is not a pool");

const NEARLY_FULL: FindingId =
    FindingId::new("pools-nearly-full", "Less than a tenth of the addresses of a pool is free on this node");
const OVERLAP: FindingId = FindingId::new(
    "pools-overlap",
    "Two pools have addresses in common: a pod of one takes them from the other",
);
const OF_NODE: FindingId =
    FindingId::new("pools-node-address", "A pool assigns an address that a link of this node has");
const NO_IPV6: FindingId =
    FindingId::new("pools-without-ipv6", "A pool has IPv6 addresses, and IPv6 is disabled in the kernel");

pub(super) const IDS: &[FindingId] =
    &[BROKEN, CONTESTED, FULL, NEARLY_FULL, OVERLAP, OF_NODE, NO_IPV6, ANY_NODE, SHARED, IGNORED];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for (path, why) in &facts.pools.broken {
        let finding =
            BROKEN.error(path, "the file is invalid: pods of networks that use its pools cannot start");
        found.push(
            finding.because(why).fix(
                "correct the file; SpiderIPPool objects are accepted in the form that Spiderpool writes",
            ),
        );
    }
    for (pool, why) in &facts.pools.contested {
        let finding = CONTESTED.error(pool, "two pools have this name, and neither of them is used");
        found.push(finding.because(why).fix("rename or remove one of them"));
    }
    for (pool, addresses) in &facts.pools.full {
        let finding = FULL.warning(
            pool,
            "the pool has no free address: pods that need one wait, unless their network has another pool",
        );
        let finding = finding.because(format!("all {addresses} addresses are assigned"));
        found.push(finding.fix("extend its ips, or release addresses of pods that are gone: silkrail gc"));
    }
    for (pool, free) in &facts.pools.nearly_full {
        let finding = NEARLY_FULL.warning(pool, "less than a tenth of its addresses is free");
        let finding = finding.because(format!("{free} free addresses"));
        found.push(finding.fix("extend its ips, or release addresses of pods that are gone: silkrail gc"));
    }
    for (first, second, range) in &facts.pools.overlapping {
        let finding = OVERLAP.warning(
            format!("{first}, {second}"),
            "the pools have addresses in common: one that a pod of the first has is not assigned to a pod of the second",
        );
        found.push(finding.because(format!("both contain {range}")).fix("give each its own ranges"));
    }
    for PoolAddress { pool, address, link } in &facts.pools.of_node {
        let finding = OF_NODE.error(pool, format!("it assigns {address}, which {link} of this node has"));
        found.push(
            finding
                .because(format!("{link}: {address}"))
                .fix("add the address to excludeIPs, or to a SpiderReservedIP"),
        );
    }
    if let Some(pool) = &facts.pools.without_ipv6 {
        let finding = NO_IPV6.error(pool, "it has IPv6 addresses, and IPv6 is disabled in the kernel");
        found.push(
            finding
                .because("/proc/sys/net/ipv6 does not exist")
                .fix("remove ipv6.disable=1 from the kernel command line and reboot, or remove the pool from the networks"),
        );
    }
    for pool in &facts.pools.of_any_node {
        let finding = ANY_NODE.info(
            pool,
            "the pool has no nodeName: all nodes with this file assign the same addresses, without coordination",
        );
        found.push(finding.fix(
            "with several nodes, configure a range with its nodeName for each (conf/pools/per-node.yaml)",
        ));
    }
    for (pool, given) in &facts.pools.shared {
        let finding = SHARED.warning(
            pool,
            "Spiderpool had assigned addresses of the pool when it was exported, and may have assigned others since then",
        );
        let finding = finding
            .because(format!("status.allocatedIPs lists {given} addresses, which are not assigned here"));
        found.push(finding.fix(
            "exclude the range from one of the two: excludeIPs here, or a SpiderReservedIP in Spiderpool",
        ));
    }
    for ignored in &facts.pools.ignored {
        found.push(
            IGNORED
                .info(facts.pools.dir, "a document in this directory is not a pool, and is ignored")
                .because(ignored),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use super::*;

    #[test]
    fn an_invalid_file_is_an_error() {
        let found =
            with(|facts| facts.pools.broken.push(("/etc/silkrail/pools.d/a.yaml".into(), "subnet".into())));
        assert_eq!(found, ["error pools-broken /etc/silkrail/pools.d/a.yaml"]);
    }

    #[test]
    fn pools_that_others_also_assign_from_are_reported() {
        let found = with(|facts| {
            facts.pools.contested.push(("twice".into(), "in a and in b".into()));
            facts.pools.of_any_node.push("v4-81".into());
            facts.pools.shared.push(("exported".into(), 3));
            facts.pools.full.push(("small".into(), 1));
            facts.pools.nearly_full.push(("large".into(), 9));
            facts.pools.overlapping.push(("a".into(), "b".into(), "10.7.0.20".into()));
            let (address, link) = ("10.7.0.15".parse().unwrap(), "rail0".into());
            facts.pools.of_node.push(PoolAddress { pool: "c".into(), address, link });
            facts.pools.without_ipv6 = Some("six".into());
        });
        let expected = [
            "error pools-twice twice",
            "error pools-node-address c",
            "error pools-without-ipv6 six",
            "warning pools-full small",
            "warning pools-nearly-full large",
            "warning pools-overlap a, b",
            "warning pools-of-spiderpool exported",
            "info pools-any-node v4-81",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_document_of_another_kind_is_info() {
        let found = with(|facts| {
            facts.pools.dir = "/etc/silkrail/pools.d";
            facts.pools.ignored.push("ConfigMap".into());
        });
        assert_eq!(found, ["info pools-ignored /etc/silkrail/pools.d"]);
    }
}
