//! GIDs of RoCE ports, the addresses of RDMA traffic.

use std::net::{IpAddr, Ipv6Addr};

use crate::{
    Finding, FindingId, NodeFacts,
    facts::devices::{DeviceFacts, PortFacts},
};

const MISSING: FindingId = FindingId::new(
    "gid-missing",
    "An address of a link is not in the GID table of its active port as RoCE v2",
);
const NO_V2: FindingId =
    FindingId::new("gid-no-roce-v2", "An active RoCE port has GIDs, but none of type RoCE v2");
const NO_ADDRESS: FindingId =
    FindingId::new("link-no-address", "The link of an active RoCE port of a PF has no IP address");
const DUPLICATE: FindingId = FindingId::new(
    "address-duplicate",
    "Another host uses an address of an RDMA link: the kernel does not use it",
);
const FULL: FindingId = FindingId::new(
    "gid-table-full",
    "The GID table of a port is nearly full: there is no room for the addresses of further pods",
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
        let finding = NO_V2.error(object, "the port has GIDs, but none of type RoCE v2");
        return Some(
            finding
                .because(format!("{} GIDs, all RoCE v1", gids.len()))
                .fix("enable RoCE v2 in the driver or firmware (cma_roce_mode, ROCE_MODE)"),
        );
    }
    let link = facts.link(port.link.as_deref()?)?;
    let addresses = link.addresses.as_ref()?;
    if let Some(address) = link.duplicates.first() {
        let finding = DUPLICATE.error(
            &link.name,
            format!("another host uses the address {}; the kernel does not use it", address.ip()),
        );
        return Some(
            finding
                .because("duplicate address detection failed (ip addr: dadfailed)")
                .fix("find the other host, or configure another address"),
        );
    }
    let missing =
        addresses.iter().map(|address| address.ip()).find(|address| !v2.contains(&as_gid(*address)));
    if let Some(address) = missing {
        let finding =
            MISSING.error(object, format!("{address} of {} is not a RoCE v2 GID of the port", link.name));
        return Some(finding.because(format!("RoCE v2 GIDs: {}", list(&v2))).fix(format!(
            "check dmesg for a full GID table; delete the address and add it again: ip address, {}",
            link.name
        )));
    }
    if addresses.is_empty() && !facts.is_vf(device) && link.controller.is_none() {
        let finding = NO_ADDRESS.info(
            &link.name,
            format!(
                "{} has no IP address: the host itself cannot use {object} for RoCE v2 between subnets",
                link.name
            ),
        );
        return Some(finding.because(
            "pods have their own addresses; the host needs one only for tests such as `silkrail check`",
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

/// Reports a GID table that is at least 90 % full. Each address uses two entries: RoCE v1 and v2.
fn full(device: &DeviceFacts, port: &PortFacts) -> Option<Finding> {
    let (used, all) = (port.gids.as_ref()?.len(), port.gid_table);
    if all == 0 || used * 10 < all * 9 {
        return None;
    }
    let finding =
        FULL.warning(device.object(port), format!("{used} of {all} entries of the GID table are in use"));
    Some(
        finding
            .because("each pod with a macvlan link on this port uses entries")
            .fix("use fewer pods on this port, or SR-IOV: each VF has its own table"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::{Known, facts::devices::GidFacts};

    #[test]
    fn an_address_must_be_a_gid() {
        let found = with(|facts| {
            facts.links[0].addresses =
                Some(vec!["172.81.0.9/16".parse().unwrap(), "172.81.0.1/16".parse().unwrap()]);
        });
        assert_eq!(found, ["error gid-missing mlx5_0 port 1"]);
        assert!(
            with(|facts| facts.links[0].addresses = None).is_empty(),
            "unknown addresses do not lead to a finding"
        );
        let six = "fd00::1".parse().unwrap();
        let with_six = |has_gid: bool| {
            with(|facts| {
                facts.links[0].addresses.as_mut().unwrap().push("fd00::1/64".parse().unwrap());
                let gids = facts.devices[0].ports[0].gids.as_mut().unwrap();
                let gid = GidFacts { gid: six, ..gids[usize::from(has_gid)].clone() };
                gids.push(gid);
            })
        };
        assert_eq!(with_six(false), ["error gid-missing mlx5_0 port 1"], "RoCE v1 only");
        assert!(with_six(true).is_empty());
    }

    #[test]
    fn a_port_with_only_roce_v1_is_an_error() {
        let found = with(|facts| {
            facts.devices[0].ports[0].gids.as_mut().unwrap().iter_mut().for_each(|gid| gid.kind = "RoCE v1");
        });
        assert_eq!(found, ["error gid-no-roce-v2 mlx5_0 port 1"]);
        let iwarp = with(|facts| {
            facts.devices[0].node_type = Known::Value("RNIC".into());
            facts.devices[0].ports[0].gids.as_mut().unwrap().clear();
        });
        assert!(iwarp.is_empty(), "iWARP has no such GIDs: {iwarp:?}");
    }

    #[test]
    fn a_link_without_address_is_info() {
        assert_eq!(with(|facts| facts.links[0].addresses = Some(Vec::new())), ["info link-no-address eth0"]);
        let of_bond = with(|facts| {
            (facts.links[0].addresses, facts.links[0].controller) = (Some(Vec::new()), Some("bond0".into()));
        });
        assert!(of_bond.is_empty(), "the bond has the address: {of_bond:?}");
        let of_vf = with(|facts| {
            facts.devices[2].ports[0].state = Known::Value("ACTIVE".into());
            facts.links[2].addresses = Some(Vec::new());
        });
        assert!(of_vf.is_empty(), "a pod has the address: {of_vf:?}");
    }

    #[test]
    fn a_duplicate_address_is_an_error() {
        let found = with(|facts| facts.links[0].duplicates = vec!["fd00::1/64".parse().unwrap()]);
        assert_eq!(found, ["error address-duplicate eth0"]);
    }

    #[test]
    fn a_nearly_full_gid_table_is_reported() {
        assert_eq!(
            with(|facts| facts.devices[0].ports[0].gid_table = 2),
            ["warning gid-table-full mlx5_0 port 1"]
        );
        for table in [0, 3] {
            assert!(with(|facts| facts.devices[0].ports[0].gid_table = table).is_empty(), "{table}");
        }
    }
}
