//! The masters of networks: the links on which the links of pods are created.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Finding, FindingId, NodeFacts, facts::links::LinkFacts};

const BUSY: FindingId = FindingId::new(
    "master-in-bridge",
    "The master of a network belongs to a bond or a bridge: no link can be created on it",
);
const DOWN: FindingId =
    FindingId::new("master-down", "The master of a network is down: its pods are not connected");
const MIXED: FindingId = FindingId::new(
    "master-mixed",
    "A master has networks of macvlan and of ipvlan, which exclude one another",
);
const VF: FindingId =
    FindingId::new("vf-used-by-node", "The node uses the link of a VF: sriov refuses the VF");

pub(super) const IDS: &[FindingId] = &[BUSY, DOWN, MIXED, VF];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, plugin) in facts.networks.plugins().filter(|(_, plugin)| plugin.ours) {
        let kind = plugin.conf.kind.trim_start_matches("silkrail-");
        let is_in_pod = plugin.conf.is_set("linkInContainer");
        if let (Some(master), false) = (plugin.conf.text("master"), is_in_pod) {
            let name = facts.link_called(master).map_or(master, |link| link.name.as_str());
            kinds.entry(name).or_default().insert(kind);
        }
    }
    for (master, kinds) in &kinds {
        if kinds.contains("macvlan") && kinds.contains("ipvlan") {
            let finding = MIXED.error(
                master,
                "networks of macvlan and of ipvlan have this master: only pods of one kind can run at a time",
            );
            found.push(
                finding
                    .because("the kernel refuses the second kind (EBUSY)")
                    .fix("use one of the two kinds for each master"),
            );
        }
        let Some(link) = facts.link(master) else { continue };
        found.extend(kinds.iter().filter(|kind| **kind != "ifacer").take(1).flat_map(|_| of_link(link)));
    }
    found.extend(vfs(facts));
}

fn of_link(link: &LinkFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(controller) = link.controller.as_ref().filter(|_| link.is_in_bridge) {
        let finding = BUSY
            .error(&link.name, format!("it belongs to {controller}: no link of a pod can be created on it"));
        found.push(
            finding
                .because(format!("/sys/class/net/{}/master → {controller}", link.name))
                .fix(format!("set master to {controller}, or remove {} from it", link.name)),
        );
    }
    if !link.has_carrier() && (link.is_down() || link.carrier.get() == Some(&0)) {
        let state = if link.is_down() { "it is administratively down" } else { "it has no carrier" };
        let finding = DOWN.warning(&link.name, format!("{state}: pods on it are not connected"));
        found.push(
            finding
                .because("a network has it as its master")
                .fix(format!("ip link set {} up; check the cable and the port of the switch", link.name)),
        );
    }
    found
}

/// VFs that the plugin would refuse because the node uses them. A VF that is bound to a bond with other VFs may be intended,
/// so it is a warning.
fn vfs(facts: &NodeFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    for vf in facts.functions.iter().filter(|function| function.pf.is_some()) {
        for link in vf.links.iter().filter_map(|link| facts.link(link)) {
            let address = link.permanent_addresses.first();
            let used = match (&link.controller, address) {
                (Some(controller), _) => format!("belongs to {controller}"),
                (None, Some(address)) => format!("has the address {address}"),
                (None, None) => continue,
            };
            let finding =
                VF.warning(&vf.address, format!("its link {} {used}: no pod can have this VF", link.name));
            found.push(finding.because("sriov and ib-sriov do not take a link from the node").fix(format!(
                "remove it from {}, or exclude the VF from the resources of the device plugin",
                link.name
            )));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{network, with};
    use super::*;
    use crate::Known;

    /// Returns the findings of a node with a link that networks with these plugins have as their master.
    fn found(plugins: &[Value], change: impl FnOnce(&mut LinkFacts)) -> Vec<String> {
        with(|facts| {
            let mut link = LinkFacts {
                name: "bond1".into(),
                up: Known::Value(true),
                carrier: Known::Value(1),
                ..LinkFacts::default()
            };
            change(&mut link);
            facts.links.push(link);
            let networks =
                plugins.iter().enumerate().map(|(at, plugin)| network(&format!("n{at}"), &json!([plugin])));
            facts.networks.networks.extend(networks);
        })
    }

    #[test]
    fn a_master_is_up_and_of_one_kind_and_in_no_bridge() {
        let [macvlan, ipvlan, ifacer] =
            ["macvlan", "silkrail-ipvlan", "ifacer"].map(|kind| json!({"type": kind, "master": "bond1"}));
        let in_pod = json!({"type": "ipvlan", "master": "bond1", "linkInContainer": true});
        let both = [macvlan.clone(), ipvlan];
        assert_eq!(found(&both, |_| ()), ["error master-mixed bond1"]);
        assert!(found(&[macvlan.clone(), in_pod], |_| ()).is_empty());
        let by_altname = json!({"type": "ipvlan", "master": "enp1s0"});
        let named = |link: &mut LinkFacts| link.altnames.push("enp1s0".into());
        assert_eq!(found(&[macvlan.clone(), by_altname], named), ["error master-mixed bond1"]);
        let macvlan = [macvlan];
        let bridge = |link: &mut LinkFacts| (link.controller, link.is_in_bridge) = (Some("br0".into()), true);
        assert_eq!(found(&macvlan, bridge), ["error master-in-bridge bond1"]);
        assert_eq!(
            found(&[ifacer], bridge),
            ["warning network-key-ignored network n0 (/n0)"],
            "a bond can be a member"
        );
        assert!(found(&macvlan, |link| link.controller = Some("vrf0".into())).is_empty());
        assert_eq!(found(&macvlan, |link| link.carrier = Known::Value(0)), ["warning master-down bond1"]);
        let down = |link: &mut LinkFacts| (link.up, link.carrier) = (Known::Value(false), Known::Absent);
        assert_eq!(found(&macvlan, down), ["warning master-down bond1"]);
        assert!(found(&macvlan, |link| link.carrier = Known::Unknown).is_empty());
        let without_carrier = |link: &mut LinkFacts| link.carrier = Known::Value(0);
        let second = [json!({"type": "macvlan", "master": "a9"}), macvlan[0].clone()];
        assert_eq!(found(&second, without_carrier), ["warning master-down bond1"]);
    }

    #[test]
    fn the_node_does_not_use_the_link_of_a_vf() {
        let vf = |change: fn(&mut LinkFacts)| with(|facts| change(&mut facts.links[2]));
        let used = ["warning vf-used-by-node 0000:af:00.1"];
        assert_eq!(vf(|link| link.controller = Some("bond0".into())), used);
        assert_eq!(vf(|link| link.permanent_addresses = vec!["10.0.0.1/24".parse().unwrap()]), used);
        // A PF may have addresses.
        let pf = with(|facts| facts.links[0].permanent_addresses = vec!["10.0.0.1/24".parse().unwrap()]);
        assert!(pf.is_empty(), "{pf:?}");
    }
}
