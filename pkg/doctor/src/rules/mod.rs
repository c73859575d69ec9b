//! Pure rules: facts in, findings out. One file per subject.

mod cni;
mod device_nodes;
mod firmware;
mod gids;
mod iommu;
mod kubelet;
mod leftovers;
mod lossless;
mod memlock;
mod mode;
mod modules;
mod mtu;
mod node_file;
mod numa;
mod pcie;
mod pod_map;
mod pools;
mod ports;
mod security;
#[cfg(test)]
mod testing;
mod unexamined;
mod vfs;

use crate::{DoctorReport, Finding, FindingId, NodeFacts};

/// What a subject has: the kinds of its findings, and the rule that finds them.
struct RuleGroup {
    ids: &'static [FindingId],
    rule: fn(&NodeFacts, &mut Vec<Finding>),
}

const SUBJECTS: [RuleGroup; 21] = [
    RuleGroup { ids: modules::IDS, rule: modules::examine },
    RuleGroup { ids: mode::IDS, rule: mode::examine },
    RuleGroup { ids: ports::IDS, rule: ports::examine },
    RuleGroup { ids: gids::IDS, rule: gids::examine },
    RuleGroup { ids: mtu::IDS, rule: mtu::examine },
    RuleGroup { ids: vfs::IDS, rule: vfs::examine },
    RuleGroup { ids: node_file::IDS, rule: node_file::examine },
    RuleGroup { ids: device_nodes::IDS, rule: device_nodes::examine },
    RuleGroup { ids: memlock::IDS, rule: memlock::examine },
    RuleGroup { ids: pcie::IDS, rule: pcie::examine },
    RuleGroup { ids: firmware::IDS, rule: firmware::examine },
    RuleGroup { ids: cni::IDS, rule: cni::examine },
    RuleGroup { ids: pools::IDS, rule: pools::examine },
    RuleGroup { ids: leftovers::IDS, rule: leftovers::examine },
    RuleGroup { ids: pod_map::IDS, rule: pod_map::examine },
    RuleGroup { ids: kubelet::IDS, rule: kubelet::examine },
    RuleGroup { ids: lossless::IDS, rule: lossless::examine },
    RuleGroup { ids: iommu::IDS, rule: iommu::examine },
    RuleGroup { ids: numa::IDS, rule: numa::examine },
    RuleGroup { ids: security::IDS, rule: security::examine },
    RuleGroup { ids: unexamined::IDS, rule: unexamined::examine },
];

/// Every kind of finding there is.
pub fn ids() -> impl Iterator<Item = &'static FindingId> {
    SUBJECTS.iter().flat_map(|subject| subject.ids)
}

/// What the facts come to.
pub fn examine(facts: &NodeFacts) -> DoctorReport {
    let mut findings = Vec::new();
    for subject in &SUBJECTS {
        (subject.rule)(facts, &mut findings);
    }
    DoctorReport::of(findings)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{testing::healthy, *};

    #[test]
    fn every_id_is_in_kebab_case_has_one_line_and_is_there_once() {
        let mut seen = BTreeSet::new();
        for FindingId { name, line } in ids() {
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{name}"
            );
            assert!(!line.is_empty() && line.len() < 120 && !line.contains('\n'), "{name}: {line}");
            assert!(seen.insert(name), "{name} is there twice");
        }
        assert!(seen.len() >= 40, "{}", seen.len());
    }

    #[test]
    fn a_healthy_node_has_no_finding() {
        assert_eq!(examine(&healthy()).findings, []);
    }

    #[test]
    fn facts_of_which_nothing_is_known_are_never_well() {
        let report = examine(&NodeFacts::default());
        assert!(report.counts.error > 0, "{report:?}");
    }
}
