//! Congestion control (ECN, trust mode, traffic class), which prevents packet loss of RoCE.

use std::collections::BTreeMap;

use crate::{
    Finding, FindingId, NodeFacts,
    facts::{devices::PortFacts, links::LinkFacts},
};

const NOT_READABLE: FindingId = FindingId::new(
    "lossless-not-readable",
    "The driver shows PFC, ECN and DSCP of RoCE ports neither in sysfs nor over DCB netlink",
);
const ECN_OFF: FindingId =
    FindingId::new("ecn-off", "ECN is disabled on every priority of an active RoCE port");
const DIFFERS: FindingId = FindingId::new(
    "lossless-differs",
    "ECN, trust mode or traffic class differ between the RoCE ports of the node",
);

pub(super) const IDS: &[FindingId] = &[NOT_READABLE, ECN_OFF, DIFFERS];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let ports: Vec<(&PortFacts, &LinkFacts)> = facts
        .devices
        .iter()
        .filter(|device| !facts.is_vf(device))
        .flat_map(|device| device.ports.iter().filter(|port| port.is_active() && device.is_roce(port)))
        .filter_map(|port| Some((port, facts.link(port.link.as_deref()?)?)))
        .collect();
    let has_dcb = |link: &LinkFacts| {
        facts.link_settings.iter().any(|settings| settings.link == link.name && settings.dcb.is_some())
    };
    let (shown, hidden): (Vec<_>, Vec<_>) = ports.into_iter().partition(|(port, link)| {
        has_dcb(link)
            || link.lossless.ecn_receiver.is_some()
            || link.lossless.trust.is_some()
            || port.traffic_class.is_some()
    });
    if !hidden.is_empty() {
        let links: Vec<&str> = hidden.iter().map(|(_, link)| link.name.as_str()).collect();
        let finding =
            NOT_READABLE.info(links.join(", "), "PFC, ECN and DSCP cannot be read and were not checked");
        found.push(finding.because(
            "the driver has neither DCB netlink nor a vendor's files in sysfs; check: mlnx_qos -i, and the switch",
        ));
    }
    for (_, link) in &shown {
        let off = |priorities: &Option<Vec<u8>>| priorities.as_ref().is_some_and(Vec::is_empty);
        if off(&link.lossless.ecn_receiver) || off(&link.lossless.ecn_sender) {
            let finding = ECN_OFF.warning(
                &link.name,
                "ECN is disabled on every priority: RoCE does not slow down before packets are lost",
            );
            found.push(
                finding
                    .because(format!("/sys/class/net/{}/ecn/roce_np/enable, …/roce_rp/enable: all 0", link.name))
                    .fix("write 1 to …/ecn/roce_np/enable/3 and …/roce_rp/enable/3 (3: the priority that RoCE uses)"),
            );
        }
    }
    for ports in same_cards(facts, shown) {
        found.extend(differs(facts, &ports));
    }
}

/// What ports are for: only those of one purpose have to have the same settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PortPurpose<'f> {
    Role(&'f str),
    Card { model: Option<&'f str>, speed: Option<i64> },
}

/// Returns the ports of each role of the site file, and the others of each model of card and speed: they have different purposes,
/// such as storage.
fn same_cards<'f>(
    facts: &'f NodeFacts,
    ports: Vec<(&'f PortFacts, &'f LinkFacts)>,
) -> Vec<Vec<(&'f PortFacts, &'f LinkFacts)>> {
    let mut by_purpose: BTreeMap<PortPurpose<'_>, Vec<_>> = BTreeMap::new();
    for (port, link) in ports {
        let function = facts.functions.iter().find(|function| function.links.contains(&link.name));
        let model = function.map(|function| function.model.as_str());
        let purpose = match facts.role_of_link(&link.name) {
            Some(role) => PortPurpose::Role(&role.name),
            None => PortPurpose::Card { model, speed: link.speed.get().copied() },
        };
        by_purpose.entry(purpose).or_default().push((port, link));
    }
    by_purpose.into_values().collect()
}

/// Reports different settings: all rails of one fabric must have the same.
fn differs(facts: &NodeFacts, ports: &[(&PortFacts, &LinkFacts)]) -> Option<Finding> {
    let mut settings: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (port, link) in ports {
        let lossless = &link.lossless;
        let class = port.traffic_class.map_or("none".to_owned(), |class| class.to_string());
        let text = format!(
            "ECN {:?}/{:?}, trust {}, traffic class {class}{}",
            lossless.ecn_receiver.as_deref().unwrap_or_default(),
            lossless.ecn_sender.as_deref().unwrap_or_default(),
            lossless.trust.as_deref().unwrap_or("?"),
            dcb_text(facts, &link.name),
        );
        settings.entry(text).or_default().push(&link.name);
    }
    if settings.len() < 2 {
        return None;
    }
    let names: Vec<&str> = ports.iter().map(|(_, link)| link.name.as_str()).collect();
    let finding = DIFFERS
        .warning(names.join(", "), "the RoCE ports of this node have different congestion control settings");
    let evidence = settings.iter().map(|(text, links)| format!("{}: {text}", links.join(", ")));
    Some(finding.because_all(evidence).fix("configure the same settings for all rails, at boot"))
}

/// Describes the DCB settings that all rails must have; empty if the driver has none.
fn dcb_text(facts: &NodeFacts, link: &str) -> String {
    let settings = facts.link_settings.iter().find(|settings| settings.link == link);
    let Some(dcb) = settings.and_then(|settings| settings.dcb.as_ref()) else { return String::new() };
    let pfc = dcb.pfc.as_ref().map(|pfc| pfc.enabled.as_slice()).unwrap_or_default();
    let mut apps: Vec<_> = dcb.apps.iter().map(ToString::to_string).collect();
    apps.sort_unstable();
    let trust = if dcb.trusts_dscp() { "DSCP" } else { "VLAN tag" };
    format!(", PFC {pfc:?}, priority by {trust}, applications [{}]", apps.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::{Known, facts::links::CongestionControl};

    #[test]
    fn hidden_settings_are_reported_as_unchecked() {
        let found = with(|facts| {
            facts.links.iter_mut().for_each(|link| link.lossless = CongestionControl::default());
            facts.devices.iter_mut().for_each(|device| device.ports[0].traffic_class = None);
        });
        assert_eq!(found, ["info lossless-not-readable eth0, eth1"]);
    }

    #[test]
    fn ecn_must_be_enabled_on_some_priority() {
        let off: [fn(&mut CongestionControl); 2] =
            [|ecn| ecn.ecn_receiver = Some(Vec::new()), |ecn| ecn.ecn_sender = Some(Vec::new())];
        for off in off {
            let found = with(|facts| facts.links.iter_mut().for_each(|link| off(&mut link.lossless)));
            assert_eq!(found, ["warning ecn-off eth0", "warning ecn-off eth1"]);
        }
    }

    #[test]
    fn rails_must_have_the_same_settings() {
        let found = with(|facts| facts.devices[1].ports[0].traffic_class = Some(0));
        assert_eq!(found, ["warning lossless-differs eth0, eth1"]);
        // VFs have those of their PF.
        let vf = with(|facts| {
            let port = &mut facts.devices[2].ports[0];
            (port.state, port.traffic_class) = (Known::Value("ACTIVE".into()), Some(0));
            facts.links[2].lossless.ecn_sender = Some(Vec::new());
        });
        assert!(!vf.iter().any(|finding| finding.contains("ecn") || finding.contains("lossless")), "{vf:?}");
    }
}
