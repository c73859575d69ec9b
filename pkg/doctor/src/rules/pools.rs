//! The node's pools of addresses.

use crate::{Finding, FindingId, NodeFacts};

const BROKEN: FindingId = FindingId::new(
    "pools-broken",
    "A file of pools cannot be understood: pods of networks that name its pools do not start",
);
const CONTESTED: FindingId = FindingId::new("pools-twice", "Two pools have one name, and neither is used");
const ANY_NODE: FindingId = FindingId::new(
    "pools-any-node",
    "A pool does not say which node it belongs to: each node that has it gives all its addresses",
);
const FULL: FindingId =
    FindingId::new("pools-full", "A pool has no free address on this node: pods that want one wait");
const SHARED: FindingId = FindingId::new(
    "pools-of-spiderpool",
    "A pool is an export of one that Spiderpool gives addresses of, and only those of that moment are left to it",
);
const IGNORED: FindingId = FindingId::new("pools-ignored", "A document in the directory of pools is no pool");

pub(super) const IDS: &[FindingId] = &[BROKEN, CONTESTED, FULL, ANY_NODE, SHARED, IGNORED];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for (path, why) in &facts.pools.broken {
        let finding = BROKEN.error(
            path,
            "it cannot be understood: a pod of a network that names one of its pools will not start",
        );
        found.push(
            finding.because(why).fix("correct it; SpiderIPPool objects are read as Spiderpool writes them"),
        );
    }
    for (pool, why) in &facts.pools.contested {
        let finding = CONTESTED.error(pool, "there are two pools of this name, and neither gives addresses");
        found.push(finding.because(why).fix("rename or remove one"));
    }
    for (pool, addresses) in &facts.pools.full {
        let finding = FULL.warning(
            pool,
            "it has no free address: a pod that wants one waits, unless its network has another pool",
        );
        let finding = finding.because(format!("all of its {addresses} addresses are given"));
        found.push(finding.fix("extend its ips, or free some: silkrail gc shows what dead pods left"));
    }
    for pool in &facts.pools.of_any_node {
        let finding = ANY_NODE.info(
            pool,
            "it has no nodeName: every node that has this file gives the same addresses, and none asks another",
        );
        found.push(finding.fix(
            "on several nodes, give each a range of its own, with its nodeName (conf/pools/per-node.yaml)",
        ));
    }
    for (pool, given) in &facts.pools.shared {
        let finding = SHARED.warning(
            pool,
            "Spiderpool had given addresses of it when it was exported, and may have given others since",
        );
        let finding = finding.because(format!("status.allocatedIPs has {given}, which are not given here"));
        found
            .push(finding.fix(
                "take the range away from one of the two: excludeIPs here, or a SpiderReservedIP there",
            ));
    }
    for ignored in &facts.pools.ignored {
        found.push(
            IGNORED
                .info(facts.pools.dir, "a document there is no pool, and is not looked at")
                .because(ignored),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;

    #[test]
    fn a_file_that_cannot_be_understood_is_an_error() {
        let found =
            with(|facts| facts.pools.broken.push(("/etc/silkrail/pools.d/a.yaml".into(), "subnet".into())));
        assert_eq!(found, ["pools-broken /etc/silkrail/pools.d/a.yaml"]);
    }

    #[test]
    fn pools_that_others_may_give_addresses_of_are_told() {
        let found = with(|facts| {
            facts.pools.contested.push(("twice".into(), "in a and in b".into()));
            facts.pools.of_any_node.push("v4-81".into());
            facts.pools.shared.push(("exported".into(), 3));
            facts.pools.full.push(("small".into(), 1));
        });
        assert_eq!(
            found,
            ["pools-twice twice", "pools-full small", "pools-of-spiderpool exported", "pools-any-node v4-81"]
        );
    }

    #[test]
    fn a_document_of_another_kind_is_good_to_know() {
        let found = with(|facts| {
            facts.pools.dir = "/etc/silkrail/pools.d";
            facts.pools.ignored.push("ConfigMap".into());
        });
        assert_eq!(found, ["pools-ignored /etc/silkrail/pools.d"]);
    }
}
