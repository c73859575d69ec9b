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

use crate::{Facts, Finding, Id, Report};

/// What a subject has: the kinds of its findings, and the rule that finds them.
struct Subject {
    ids: &'static [Id],
    rule: fn(&Facts, &mut Vec<Finding>),
}

const SUBJECTS: [Subject; 21] = [
    Subject { ids: modules::IDS, rule: modules::examine },
    Subject { ids: mode::IDS, rule: mode::examine },
    Subject { ids: ports::IDS, rule: ports::examine },
    Subject { ids: gids::IDS, rule: gids::examine },
    Subject { ids: mtu::IDS, rule: mtu::examine },
    Subject { ids: vfs::IDS, rule: vfs::examine },
    Subject { ids: node_file::IDS, rule: node_file::examine },
    Subject { ids: device_nodes::IDS, rule: device_nodes::examine },
    Subject { ids: memlock::IDS, rule: memlock::examine },
    Subject { ids: pcie::IDS, rule: pcie::examine },
    Subject { ids: firmware::IDS, rule: firmware::examine },
    Subject { ids: cni::IDS, rule: cni::examine },
    Subject { ids: pools::IDS, rule: pools::examine },
    Subject { ids: leftovers::IDS, rule: leftovers::examine },
    Subject { ids: pod_map::IDS, rule: pod_map::examine },
    Subject { ids: kubelet::IDS, rule: kubelet::examine },
    Subject { ids: lossless::IDS, rule: lossless::examine },
    Subject { ids: iommu::IDS, rule: iommu::examine },
    Subject { ids: numa::IDS, rule: numa::examine },
    Subject { ids: security::IDS, rule: security::examine },
    Subject { ids: unexamined::IDS, rule: unexamined::examine },
];

/// Every kind of finding there is.
pub fn ids() -> impl Iterator<Item = &'static Id> {
    SUBJECTS.iter().flat_map(|subject| subject.ids)
}

/// What the facts come to.
pub fn examine(facts: &Facts) -> Report {
    let mut findings = Vec::new();
    for subject in &SUBJECTS {
        (subject.rule)(facts, &mut findings);
    }
    Report::of(findings)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{testing::healthy, *};

    #[test]
    fn every_id_is_in_kebab_case_has_one_line_and_is_there_once() {
        let mut seen = BTreeSet::new();
        for Id { name, line } in ids() {
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
        let report = examine(&Facts::default());
        assert!(report.counts.error > 0, "{report:?}");
    }
}
