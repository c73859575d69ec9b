//! The rules: pure functions from facts to findings, in one file per subject.

mod cni;
mod device_nodes;
mod file_systems;
mod firewall;
mod firmware;
mod gids;
mod iommu;
mod kernel_limits;
mod kernel_messages;
mod kubelet;
mod leftovers;
mod link_settings;
mod lossless;
mod masters;
mod memlock;
mod mode;
mod modules;
mod mtu;
mod multus;
mod network_keys;
mod networks;
mod node_file;
mod numa;
mod pcie;
mod permissions;
mod pod_map;
mod policy;
mod pools;
mod ports;
mod rails;
mod resources;
mod security;
mod services;
mod site;
#[cfg(test)]
mod testing;
mod unexamined;
mod vfs;

pub use self::site::{ExpectedPort, expected_ports};
use crate::{DoctorReport, Finding, FindingId, NodeFacts};

/// The rules of one subject, and the kinds of findings that they report.
struct RuleGroup {
    ids: &'static [FindingId],
    rule: fn(&NodeFacts, &mut Vec<Finding>),
}

const SUBJECTS: [RuleGroup; 36] = [
    RuleGroup { ids: modules::IDS, rule: modules::examine },
    RuleGroup { ids: mode::IDS, rule: mode::examine },
    RuleGroup { ids: ports::IDS, rule: ports::examine },
    RuleGroup { ids: link_settings::IDS, rule: link_settings::examine },
    RuleGroup { ids: gids::IDS, rule: gids::examine },
    RuleGroup { ids: mtu::IDS, rule: mtu::examine },
    RuleGroup { ids: vfs::IDS, rule: vfs::examine },
    RuleGroup { ids: node_file::IDS, rule: node_file::examine },
    RuleGroup { ids: site::IDS, rule: site::examine },
    RuleGroup { ids: services::IDS, rule: services::examine },
    RuleGroup { ids: device_nodes::IDS, rule: device_nodes::examine },
    RuleGroup { ids: memlock::IDS, rule: memlock::examine },
    RuleGroup { ids: kernel_limits::IDS, rule: kernel_limits::examine },
    RuleGroup { ids: firewall::IDS, rule: firewall::examine },
    RuleGroup { ids: kernel_messages::IDS, rule: kernel_messages::examine },
    RuleGroup { ids: file_systems::IDS, rule: file_systems::examine },
    RuleGroup { ids: permissions::IDS, rule: permissions::examine },
    RuleGroup { ids: pcie::IDS, rule: pcie::examine },
    RuleGroup { ids: firmware::IDS, rule: firmware::examine },
    RuleGroup { ids: cni::IDS, rule: cni::examine },
    RuleGroup { ids: networks::IDS, rule: networks::examine },
    RuleGroup { ids: network_keys::IDS, rule: network_keys::examine },
    RuleGroup { ids: multus::IDS, rule: multus::examine },
    RuleGroup { ids: masters::IDS, rule: masters::examine },
    RuleGroup { ids: rails::IDS, rule: rails::examine },
    RuleGroup { ids: policy::IDS, rule: policy::examine },
    RuleGroup { ids: pools::IDS, rule: pools::examine },
    RuleGroup { ids: leftovers::IDS, rule: leftovers::examine },
    RuleGroup { ids: pod_map::IDS, rule: pod_map::examine },
    RuleGroup { ids: kubelet::IDS, rule: kubelet::examine },
    RuleGroup { ids: resources::IDS, rule: resources::examine },
    RuleGroup { ids: lossless::IDS, rule: lossless::examine },
    RuleGroup { ids: iommu::IDS, rule: iommu::examine },
    RuleGroup { ids: numa::IDS, rule: numa::examine },
    RuleGroup { ids: security::IDS, rule: security::examine },
    RuleGroup { ids: unexamined::IDS, rule: unexamined::examine },
];

/// Returns every kind of finding.
pub fn ids() -> impl Iterator<Item = &'static FindingId> {
    SUBJECTS.iter().flat_map(|subject| subject.ids)
}

/// Applies all rules to the facts and returns the findings.
pub fn examine(facts: &NodeFacts) -> DoctorReport {
    let mut findings = Vec::new();
    for subject in &SUBJECTS {
        (subject.rule)(facts, &mut findings);
    }
    findings.extend(site::unknown_ids(facts, |name| ids().any(|id| id.name == name)));
    let (findings, ignored) = site::without_accepted(facts, findings);
    DoctorReport { ignored, ..DoctorReport::of(findings) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{testing::healthy, *};
    use crate::{
        NodeInventory,
        facts::{functions::Gpu, pci_express::PcieLink},
    };

    #[test]
    fn every_id_is_unique_and_in_kebab_case_and_has_one_line() {
        let mut seen = BTreeSet::new();
        for FindingId { name, line } in ids() {
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{name}"
            );
            assert!(!line.is_empty() && line.len() < 120 && !line.contains('\n'), "{name}: {line}");
            assert!(seen.insert(name), "{name} occurs twice");
        }
        assert!(seen.len() >= 40, "{}", seen.len());
    }

    #[test]
    fn a_healthy_node_has_no_finding() {
        assert_eq!(examine(&healthy()).findings, []);
    }

    #[test]
    fn the_inventory_has_cards_and_gpus_and_no_vf() {
        let mut facts = healthy();
        facts.devices[1].ports[0].link = None;
        let pcie = PcieLink { width: Some(8), ..PcieLink::default() };
        facts.gpus.push(Gpu { model: "0x10de:0x2330".into(), pcie, ..Gpu::default() });
        let card = |name: &str, mtu| (name.to_owned(), Some("16 GT/s x16".to_owned()), mtu);
        let expected = NodeInventory {
            kernel: Some("6.12.0".into()),
            cards: vec![card("mlx5_0", Some(4200)), card("mlx5_1", None)],
            gpus: vec![("0x10de:0x2330".into(), Some(8))],
        };
        assert_eq!(NodeInventory::of(&facts), expected);
    }

    #[test]
    fn unknown_facts_never_count_as_healthy() {
        let report = examine(&NodeFacts::default());
        assert!(report.counts.error > 0, "{report:?}");
    }
}
