//! GIDs of RoCE ports: the addresses by which RDMA traffic finds them.

use std::net::{IpAddr, Ipv6Addr};

use crate::{
    Finding, FindingId, NodeFacts,
    facts::devices::{DeviceFacts, PortFacts},
};

const MISSING: FindingId =
    FindingId::new("gid-missing", "A link has an address that is no RoCE v2 GID of its active port");
const NO_V2: FindingId =
    FindingId::new("gid-no-roce-v2", "An active RoCE port has GIDs, but none for RoCE v2");
const NO_ADDRESS: FindingId =
    FindingId::new("link-no-address", "The link of an active RoCE port of a PF has no IP address");
const DUPLICATE: FindingId = FindingId::new(
    "address-duplicate",
    "An address of an RDMA link is somebody else's too: the kernel does not use it",
);
const FULL: FindingId = FindingId::new(
    "gid-table-full",
    "A port's GID table is nearly full: addresses of further pods will not fit",
);

pub(super) const IDS: &[FindingId] = &[MISSING, NO_V2, NO_ADDRESS, DUPLICATE, FULL];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for device in &facts.devices {
        for port in device.ports.iter().filter(|port| port.is_active() && device.is_roce(port)) {
            found.extend(judge(facts, device, port));
            found.extend(full(device, port));
        }
    }
}

fn judge(facts: &NodeFacts, device: &DeviceFacts, port: &PortFacts) -> Option<Finding> {
    let (gids, object) = (port.gids.as_ref()?, device.object(port));
    let v2: Vec<Ipv6Addr> = gids.iter().filter(|gid| gid.kind == "RoCE v2").map(|gid| gid.gid).collect();
    if v2.is_empty() && !gids.is_empty() {
        let finding = NO_V2.error(object, "the port has GIDs, but none for RoCE v2");
        return Some(
            finding
                .because(format!("{} GIDs, all RoCE v1", gids.len()))
                .fix("switch RoCE v2 on in the driver or firmware (cma_roce_mode, ROCE_MODE)"),
        );
    }
    let link = facts.link(port.link.as_deref()?)?;
    let addresses = link.addresses.as_ref()?;
    if let Some(address) = link.duplicates.first() {
        let finding = DUPLICATE.error(
            &link.name,
            format!("{} is somebody else's address too; the kernel does not use it", address.ip()),
        );
        return Some(
            finding
                .because("duplicate address detection failed (ip addr: dadfailed)")
                .fix("find the other owner, or take another address"),
        );
    }
    let missing =
        addresses.iter().map(|address| address.ip()).find(|address| !v2.contains(&as_gid(*address)));
    if let Some(address) = missing {
        let finding =
            MISSING.error(object, format!("{address} of {} is no RoCE v2 GID of the port", link.name));
        return Some(finding.because(format!("RoCE v2 GIDs: {}", list(&v2))).fix(format!(
            "look into dmesg for a full GID table; take the address away and add it again: ip addr, {}",
            link.name
        )));
    }
    if addresses.is_empty() && !facts.is_vf(device) && link.controller.is_none() {
        let finding = NO_ADDRESS.info(
            &link.name,
            format!(
                "{} has no IP address: the node itself cannot use {object} for RoCE v2 between subnets",
                link.name
            ),
        );
        return Some(finding.because(
            "pods have addresses of their own; the node needs one only for tests such as `silkrail check`",
        ));
    }
    None
}

fn as_gid(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn list(gids: &[Ipv6Addr]) -> String {
    if gids.is_empty() {
        "none".to_owned()
    } else {
        gids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// An address takes two entries: RoCE v1 and v2.
fn full(device: &DeviceFacts, port: &PortFacts) -> Option<Finding> {
    let (used, all) = (port.gids.as_ref()?.len(), port.gid_table);
    if all == 0 || used * 10 < all * 9 {
        return None;
    }
    let finding =
        FULL.warning(device.object(port), format!("{used} of {all} entries of the GID table are in use"));
    Some(
        finding
            .because("each pod with a macvlan on the link takes entries")
            .fix("put fewer pods on this port, or use SR-IOV: each VF has a table of its own"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::Known;

    #[test]
    fn an_address_must_be_a_gid() {
        let found = with(|facts| {
            facts.links[0].addresses =
                Some(vec!["172.81.0.9/16".parse().unwrap(), "172.81.0.1/16".parse().unwrap()]);
        });
        assert_eq!(found, ["gid-missing mlx5_0 port 1"]);
        assert!(
            with(|facts| facts.links[0].addresses = None).is_empty(),
            "addresses that are not known say nothing"
        );
    }

    #[test]
    fn a_port_with_nothing_but_roce_v1_is_an_error() {
        let found = with(|facts| {
            facts.devices[0].ports[0].gids.as_mut().unwrap().iter_mut().for_each(|gid| gid.kind = "RoCE v1");
        });
        assert_eq!(found, ["gid-no-roce-v2 mlx5_0 port 1"]);
        let iwarp = with(|facts| {
            facts.devices[0].node_type = Known::Is("RNIC".into());
            facts.devices[0].ports[0].gids.as_mut().unwrap().clear();
        });
        assert!(iwarp.is_empty(), "iWARP has no such GIDs: {iwarp:?}");
    }

    #[test]
    fn a_link_without_address_is_good_to_know() {
        assert_eq!(with(|facts| facts.links[0].addresses = Some(Vec::new())), ["link-no-address eth0"]);
    }

    #[test]
    fn an_address_that_somebody_else_has_is_an_error() {
        let found = with(|facts| facts.links[0].duplicates = vec!["fd00::1/64".parse().unwrap()]);
        assert_eq!(found, ["address-duplicate eth0"]);
    }

    #[test]
    fn a_gid_table_that_is_nearly_full_is_told_of() {
        assert_eq!(with(|facts| facts.devices[0].ports[0].gid_table = 2), ["gid-table-full mlx5_0 port 1"]);
    }
}
