//! NUMA nodes of cards and GPUs.

use std::collections::BTreeSet;

use crate::{Finding, FindingId, NodeFacts};

const UNKNOWN: FindingId =
    FindingId::new("numa-unknown", "The platform does not report the NUMA node of a card");
const FAR: FindingId = FindingId::new(
    "gpu-without-near-card",
    "The NUMA node of a GPU has no card with RDMA, but other NUMA nodes have",
);

pub(super) const IDS: &[FindingId] = &[UNKNOWN, FAR];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let cards =
        || facts.functions.iter().filter(|function| function.pf.is_none() && !function.rdma.is_empty());
    if facts.kernel.numa_nodes > 1 {
        for card in cards().filter(|card| card.numa_node.is_none()) {
            let finding =
                UNKNOWN.info(&card.address, "the platform does not report the NUMA node of the card");
            found.push(finding.because("numa_node: -1").fix(
                "update the BIOS or change its settings; until then, pods cannot be placed near the card",
            ));
        }
    }
    let near: BTreeSet<u32> = cards().filter_map(|card| card.numa_node).collect();
    for gpu in &facts.gpus {
        if let Some(node) = gpu.numa_node.filter(|node| !near.is_empty() && !near.contains(node)) {
            let finding = FAR
                .info(&gpu.address, format!("the GPU is on NUMA node {node}, which has no card with RDMA"));
            found.push(finding.because(format!("NUMA nodes with cards: {near:?}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::facts::functions::Gpu;

    #[test]
    fn a_card_without_numa_node_is_reported_if_there_are_several_nodes() {
        let nodes = |nodes| {
            with(move |facts| {
                facts.kernel.numa_nodes = nodes;
                facts.functions[0].numa_node = None;
            })
        };
        assert_eq!(nodes(2), ["info numa-unknown 0000:af:00.0"]);
        assert!(nodes(1).is_empty());
    }

    #[test]
    fn a_gpu_far_from_every_card_is_info() {
        let node = |node| {
            with(move |facts| {
                facts.gpus =
                    vec![Gpu { address: "0000:01:00.0".into(), numa_node: Some(node), ..Gpu::default() }]
            })
        };
        assert_eq!(node(1), ["info gpu-without-near-card 0000:01:00.0"]);
        assert!(node(0).is_empty());
        let unknown = with(|facts| {
            facts.functions.iter_mut().for_each(|function| function.numa_node = None);
            facts.gpus = vec![Gpu { address: "0000:01:00.0".into(), numa_node: Some(1), ..Gpu::default() }];
        });
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
