//! Ports of RDMA devices, and their links.

use std::collections::BTreeMap;

use site::PortRole;

use crate::{
    Finding, FindingId, NodeFacts, Severity,
    facts::devices::{DeviceFacts, PortFacts},
};

const LINK_DOWN: FindingId =
    FindingId::new("link-down", "The link of a PF with RDMA is administratively down");
const NO_CARRIER: FindingId =
    FindingId::new("link-no-carrier", "The link of a PF with RDMA is up, but has no carrier");
const NOT_ACTIVE: FindingId =
    FindingId::new("port-not-active", "An RDMA port is not active, although its link is up");
const NO_MANAGER: FindingId =
    FindingId::new("ib-no-subnet-manager", "An InfiniBand port has a link, but no subnet manager");
const ZERO_GUID: FindingId =
    FindingId::new("node-guid-zero", "The node GUID of a device is zero: RDMA-CM does not work with it");
const SAME_GUID: FindingId =
    FindingId::new("node-guid-duplicate", "Several devices of one driver have the same node GUID");

pub(super) const IDS: &[FindingId] = &[LINK_DOWN, NO_CARRIER, NOT_ACTIVE, NO_MANAGER, ZERO_GUID, SAME_GUID];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for device in &facts.devices {
        for port in &device.ports {
            let role = facts.role(device, port);
            if role.is_some_and(PortRole::is_uncabled) {
                continue;
            }
            let is_cabled = role.filter(|role| role.cabled == Some(true));
            found.extend(judge(facts, device, port).map(|finding| {
                match is_cabled {
                    Some(role) => Finding { severity: Severity::Error, ..finding }
                        .because(format!("{}: role {}: cabled: true", facts.site.file, role.name)),
                    None => finding,
                }
            }));
        }
        found.extend(zero_guid(facts, device));
    }
    found.extend(same_guids(facts));
}

/// Returns the first reason why a port is not active. The link of a VF is down as long as no pod uses it.
fn judge(facts: &NodeFacts, device: &DeviceFacts, port: &PortFacts) -> Option<Finding> {
    if port.is_infiniband() {
        return infiniband(facts, device, port);
    }
    let state = port.state.get()?;
    let evidence =
        format!("{}: {state}, {}", device.object(port), port.physical.get().map_or("?", String::as_str));
    let link = port.link.as_deref().and_then(|name| facts.link(name));
    let idle_vf = facts.is_vf(device) && link.is_none_or(|link| !link.has_carrier());
    if port.is_active() || idle_vf {
        return None;
    }
    let Some(link) = link else {
        let finding = NOT_ACTIVE.error(device.object(port), format!("the port is {state}"));
        return Some(finding.because(evidence).fix("check the link of the port: ip link, rdma link"));
    };
    let name = &link.name;
    if link.is_down() {
        let has_vfs = facts.functions.iter().any(|pf| pf.links.contains(name) && !pf.vfs.is_empty());
        let (severity, more) = if has_vfs {
            (Severity::Error, ", so that its VFs have no carrier")
        } else {
            (Severity::Warning, "")
        };
        let finding = LINK_DOWN.found(
            severity,
            name,
            format!("{name}, the link of {}, is down{more}", device.object(port)),
        );
        return Some(
            finding
                .because(evidence)
                .fix(format!("ip link set {name} up, and change the network configuration of the host")),
        );
    }
    if !link.has_carrier() {
        let finding = NO_CARRIER
            .error(name, format!("{name}, the link of {}, is up, but has no carrier", device.object(port)));
        return Some(
            finding.because(evidence).fix("check cable, transceiver and switch port; ethtool shows details"),
        );
    }
    let finding = NOT_ACTIVE
        .error(device.object(port), format!("the port is {state}, although its link {name} has a carrier"));
    Some(
        finding
            .because(evidence)
            .fix("check dmesg for messages of the driver; rebind the driver if no pod uses the card"),
    )
}

fn infiniband(facts: &NodeFacts, device: &DeviceFacts, port: &PortFacts) -> Option<Finding> {
    let state = port.state.get().filter(|_| !port.is_active())?;
    let physical = port.physical.get().map_or("?", String::as_str);
    let evidence = format!("{}: {state}, {physical}", device.object(port));
    if physical == "LinkUp" {
        // The plugin that attaches a VF to a pod sets its GUID and link state.
        let (severity, fix) = match facts.is_vf(device) {
            true => (
                Severity::Info,
                "for use in a pod: set a GUID and link state auto, and enable virtualization in the subnet manager",
            ),
            false => (Severity::Error, "start a subnet manager (opensm, UFM, or that of the switch)"),
        };
        let text = format!("the port has a link, but is {state}: there is no subnet manager");
        let finding = NO_MANAGER.found(severity, device.object(port), text);
        let lid = port.sm_lid.get().map(|lid| format!("sm_lid: {lid}"));
        return Some(finding.because(evidence).because_all(lid).fix(fix));
    }
    if facts.is_vf(device) {
        return None;
    }
    let finding = NOT_ACTIVE.error(device.object(port), format!("the port is {state} ({physical})"));
    Some(finding.because(evidence).fix("check cable, transceiver and switch port"))
}

fn has_zero_guid(device: &DeviceFacts) -> bool {
    device.node_guid.is_and(|guid| guid.bytes().all(|byte| matches!(byte, b'0' | b':')))
}

fn zero_guid(facts: &NodeFacts, device: &DeviceFacts) -> Option<Finding> {
    let guid = device.node_guid.get().filter(|_| has_zero_guid(device))?;
    // The plugin sets the GUID of an InfiniBand VF when it attaches it, if the network or ib-kubernetes gives one.
    if facts.is_vf(device) && device.ports.iter().any(PortFacts::is_infiniband) {
        let finding = ZERO_GUID.info(&device.name, "the InfiniBand VF has no GUID yet");
        return Some(finding.because(format!("node_guid: {guid}")).fix(
            "nothing, if its network gives it a GUID (guid, or ib-kubernetes); if not, set one through its PF: silkrail apply \
             with a node file sets a stable one",
        ));
    }
    let finding =
        ZERO_GUID.error(&device.name, "the node GUID is zero: RDMA-CM does not work with the device");
    Some(finding.because(format!("node_guid: {guid}")).fix(
        "set a MAC address (RoCE) or a GUID (InfiniBand) of the VF through its PF, then rebind its driver: \
         ip link set PF vf N mac …, then unbind and bind in /sys/bus/pci/drivers",
    ))
}

fn same_guids(facts: &NodeFacts) -> Vec<Finding> {
    let mut by_guid: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for device in &facts.devices {
        if let (Some(guid), Some(driver)) = (device.node_guid.get(), device.driver.as_deref())
            && !has_zero_guid(device)
        {
            by_guid.entry((driver, guid)).or_default().push(&device.name);
        }
    }
    by_guid.retain(|_, names| names.len() > 1);
    let same = by_guid.into_iter().map(|((_, guid), names)| {
        let finding = SAME_GUID.warning(names[0], format!("{} have the same node GUID", names.join(", ")));
        finding
            .because(format!("node_guid: {guid}"))
            .fix("set a unique MAC address or GUID for each VF, and rebind its driver")
    });
    same.collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::{Known, NodeFacts};

    fn set(facts: &mut NodeFacts, state: &str, physical: &str) {
        let port = &mut facts.devices[1].ports[0];
        (port.state, port.physical) = (Known::Value(state.into()), Known::Value(physical.into()));
        port.gids = None;
    }

    #[test]
    fn a_pf_whose_link_is_down_is_an_error_if_it_has_vfs() {
        let down = |vfs: bool| {
            with(move |facts| {
                set(facts, "DOWN", "Disabled");
                facts.links[1].up = Known::Value(false);
                facts.links[1].carrier = Known::Absent;
                if !vfs {
                    facts.functions.retain(|function| function.address != "0000:b0:00.1");
                    facts.functions[1].vfs.clear();
                    facts.functions[1].num_vfs = Known::Value(0);
                }
            })
        };
        assert_eq!(down(true), ["error link-down eth1"]);
        assert_eq!(down(false), ["warning link-down eth1"]);
    }

    #[test]
    fn a_link_without_carrier_and_an_inactive_port_are_different_findings() {
        let carrier = |carrier| {
            with(move |facts| {
                set(facts, "DOWN", "Polling");
                facts.links[1].carrier = Known::Value(carrier);
            })
        };
        assert_eq!(carrier(0), ["error link-no-carrier eth1"]);
        assert_eq!(carrier(1), ["error port-not-active mlx5_1 port 1"]);
        let without_link = with(|facts| {
            set(facts, "DOWN", "Polling");
            facts.devices[1].ports[0].link = None;
        });
        assert_eq!(without_link, ["error port-not-active mlx5_1 port 1"]);
        // The link of a VF is down until a pod uses it.
        let vf_with_carrier = with(|facts| facts.links[2].up = Known::Value(true));
        assert_eq!(vf_with_carrier, ["error port-not-active mlx5_2 port 1"]);
        let vf_without_link = with(|facts| facts.devices[2].ports[0].link = None);
        assert!(vf_without_link.is_empty(), "{vf_without_link:?}");
    }

    #[test]
    fn an_infiniband_port_needs_a_subnet_manager() {
        let physical = |physical: &'static str| {
            with(move |facts| {
                set(facts, "INIT", physical);
                facts.devices[1].ports[0].layer = Known::Value("InfiniBand".into());
                facts.devices[1].ports[0].link = None;
            })
        };
        assert_eq!(physical("LinkUp"), ["error ib-no-subnet-manager mlx5_1 port 1"]);
        assert_eq!(physical("Polling"), ["error port-not-active mlx5_1 port 1"]);
        let vf = with(|facts| {
            let port = &mut facts.devices[2].ports[0];
            (port.layer, port.physical) = (Known::Value("InfiniBand".into()), Known::Value("LinkUp".into()));
        });
        assert_eq!(vf, ["info ib-no-subnet-manager mlx5_2 port 1"], "no pod uses it yet");
    }

    #[test]
    fn a_guid_must_be_unique_and_not_zero() {
        let guid =
            |guid: &'static str| with(move |facts| facts.devices[1].node_guid = Known::Value(guid.into()));
        assert_eq!(guid("0000:0000:0000:0000"), ["error node-guid-zero mlx5_1"]);
        assert_eq!(guid("0c42:a103:0065:1230"), ["warning node-guid-duplicate mlx5_0"]);
        let of_rxe = with(|facts| {
            facts.devices[1].node_guid = Known::Value("0c42:a103:0065:1230".into());
            facts.devices[1].driver = Some("rxe".into());
        });
        assert!(of_rxe.is_empty(), "a software device on the link of the card: {of_rxe:?}");
        let zero = with(|facts| {
            facts.devices[..2]
                .iter_mut()
                .for_each(|device| device.node_guid = Known::Value("0000:0000".into()));
        });
        assert_eq!(zero, ["error node-guid-zero mlx5_0", "error node-guid-zero mlx5_1"]);
    }

    #[test]
    fn an_infiniband_vf_without_guid_waits_for_a_pod() {
        let found = with(|facts| {
            let vf = &mut facts.devices[2];
            vf.node_guid = Known::Value("0000:0000:0000:0000".into());
            vf.ports[0].layer = Known::Value("InfiniBand".into());
        });
        assert_eq!(found, ["info node-guid-zero mlx5_2"]);
    }
}
