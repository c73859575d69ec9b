//! NUMA: cards, and GPUs near them.

use std::collections::BTreeSet;

use crate::{Finding, FindingId, NodeFacts};

const UNKNOWN: FindingId =
    FindingId::new("numa-unknown", "The platform does not say which NUMA node a card is attached to");
const FAR: FindingId =
    FindingId::new("gpu-without-near-card", "A GPU's NUMA node has no card with RDMA, and others have");

pub(super) const IDS: &[FindingId] = &[UNKNOWN, FAR];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let cards =
        || facts.functions.iter().filter(|function| function.pf.is_none() && !function.rdma.is_empty());
    if facts.kernel.numa_nodes > 1 {
        for card in cards().filter(|card| card.numa_node.is_none()) {
            let finding = UNKNOWN
                .info(&card.address, "the platform does not say which NUMA node the card is attached to");
            found.push(
                finding
                    .because("numa_node: -1")
                    .fix("a BIOS update or setting; until then nobody can place pods near it"),
            );
        }
    }
    let near: BTreeSet<u32> = cards().filter_map(|card| card.numa_node).collect();
    for gpu in &facts.gpus {
        if let Some(node) = gpu.numa_node.filter(|node| !near.is_empty() && !near.contains(node)) {
            let finding =
                FAR.info(&gpu.address, format!("the GPU is on NUMA node {node}, and no card with RDMA is"));
            found.push(finding.because(format!("cards are on the nodes {near:?}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::facts::functions::Gpu;

    #[test]
    fn a_card_of_no_node_is_told_of_where_there_are_several() {
        let nodes = |nodes| {
            with(move |facts| {
                facts.kernel.numa_nodes = nodes;
                facts.functions[0].numa_node = None;
            })
        };
        assert_eq!(nodes(2), ["numa-unknown 0000:af:00.0"]);
        assert!(nodes(1).is_empty());
    }

    #[test]
    fn a_gpu_far_from_every_card_is_good_to_know() {
        let node = |node| {
            with(move |facts| {
                facts.gpus = vec![Gpu { address: "0000:01:00.0".into(), numa_node: Some(node) }]
            })
        };
        assert_eq!(node(1), ["gpu-without-near-card 0000:01:00.0"]);
        assert!(node(0).is_empty());
    }
}
