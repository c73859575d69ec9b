//! MTUs of ports and links.
//!
//! The kernel reports the active MTU of a RoCE port only to programs that open the device. Every RoCE driver computes it
//! from the MTU of the link in the same way (`iboe_get_mtu`); this module does the same.

use std::collections::BTreeMap;

use crate::{Finding, FindingId, NodeFacts, facts::functions::FunctionFacts};

const TOO_SMALL: FindingId =
    FindingId::new("mtu-too-small", "The MTU of a RoCE link leaves less than 1024 bytes for RDMA");
const SMALL: FindingId =
    FindingId::new("mtu-below-4096", "The MTU of a RoCE link leaves less than 4096 bytes for RDMA");
const DIFFERS: FindingId =
    FindingId::new("mtu-differs", "The links of PFs of the same model have different MTUs");
const VF_ABOVE_PF: FindingId = FindingId::new(
    "mtu-vf-above-pf",
    "The MTU of a VF exceeds the MTU of its PF: large packets may be dropped",
);

pub(super) const IDS: &[FindingId] = &[TOO_SMALL, SMALL, DIFFERS, VF_ABOVE_PF];

/// The headers that the drivers reserve: GRH or IP, UDP, BTH and extended headers, and the ICRC.
const HEADERS: u32 = 96;

/// Returns the largest RDMA MTU that fits into the MTU of a link; `None` if even 256 bytes do not fit.
fn active_mtu(link: u32) -> Option<u32> {
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| link.saturating_sub(HEADERS) >= *mtu)
}

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let mut by_model: BTreeMap<&str, Vec<(&str, u32)>> = BTreeMap::new();
    for device in &facts.devices {
        for port in device.ports.iter().filter(|port| device.is_roce(port)) {
            let Some(link) = port.link.as_deref().and_then(|name| facts.link(name)) else { continue };
            let Some(&mtu) = link.mtu.get() else { continue };
            let role = facts.role(device, port);
            // The site file says that the port is not used, or which MTU it has to have.
            if role.is_some_and(|role| role.is_uncabled() || role.mtu.is_some()) {
                continue;
            }
            let function = device.function.as_deref().and_then(|address| facts.function(address));
            found.extend(small(&link.name, mtu, function.is_some_and(|function| function.pf.is_some())));
            if let Some(function) = function.filter(|function| function.pf.is_none() && port.is_active()) {
                by_model.entry(&function.model).or_default().push((&link.name, mtu));
            }
        }
    }
    found.extend(by_model.into_values().filter_map(differs));
    found.extend(vfs(facts));
}

fn small(link: &str, mtu: u32, is_vf: bool) -> Option<Finding> {
    let active = active_mtu(mtu);
    let shown = active.map_or("none".to_owned(), |active| active.to_string());
    let evidence =
        format!("MTU {mtu}; the active MTU of its RDMA port is {shown} (computed like in the RoCE drivers)");
    match active {
        Some(4096) => None,
        Some(1024..) if is_vf => None, // reported for its PF
        Some(active @ 1024..) => {
            let finding =
                SMALL.info(link, format!("RDMA packets carry at most {active} bytes; 4096 are possible"));
            Some(
                finding
                    .because(evidence)
                    .fix("set an MTU of 4200 or 9000, also on the switches: ip link set … mtu 9000"),
            )
        }
        _ => {
            let finding = TOO_SMALL.error(link, format!("the MTU {mtu} is too small for RDMA"));
            Some(finding.because(evidence).fix(format!(
                "ip link set {link} mtu 9000 (at least 1500), and change the network configuration of the host"
            )))
        }
    }
}

fn differs(links: Vec<(&str, u32)>) -> Option<Finding> {
    let (first, mtu) = *links.first()?;
    let (other, _) = links.iter().find(|(_, other)| *other != mtu)?;
    let finding =
        DIFFERS.warning(other, format!("PFs of the same model have different MTUs ({first} and {other})"));
    let evidence = links.iter().map(|(link, mtu)| format!("{link}: {mtu}"));
    Some(finding.because_all(evidence).fix("configure the same MTU for all rails"))
}

/// Returns the link of the port of a function. A PF in switchdev mode also has the representors of its VFs.
fn link_of<'a>(facts: &'a NodeFacts, function: &'a FunctionFacts) -> Option<&'a String> {
    let device = facts.devices.iter().find(|device| device.function.as_ref() == Some(&function.address));
    let of_port = device.and_then(|device| device.ports.first()?.link.as_ref());
    of_port.or(match function.links.as_slice() {
        [link] => Some(link),
        _ => None,
    })
}

fn vfs(facts: &NodeFacts) -> Vec<Finding> {
    let mtu = |link: &String| facts.link(link).and_then(|link| link.mtu.get().copied());
    let above = facts.functions.iter().filter_map(|vf| {
        let pf = facts.function(vf.pf.as_deref()?)?;
        let (vf_link, pf_link) = (link_of(facts, vf)?, link_of(facts, pf)?);
        let (vf_mtu, pf_mtu) = (mtu(vf_link)?, mtu(pf_link)?);
        (vf_mtu > pf_mtu).then(|| {
            let finding = VF_ABOVE_PF
                .warning(vf_link, format!("the MTU {vf_mtu} of the VF exceeds the MTU {pf_mtu} of its PF"));
            finding
                .because(format!("{vf_link} ({}): {vf_mtu}; {pf_link}: {pf_mtu}", vf.address))
                .fix(format!("ip link set {pf_link} mtu {vf_mtu}, or reduce the MTU of the VF"))
        })
    });
    above.collect()
}

#[cfg(test)]
mod tests {
    use super::{super::testing::with, active_mtu};
    use crate::Known;

    #[test]
    fn the_active_mtu_is_computed_like_in_the_drivers() {
        let known =
            [(1500, Some(1024)), (4191, Some(2048)), (4192, Some(4096)), (9000, Some(4096)), (300, None)];
        for (link, active) in known {
            assert_eq!(active_mtu(link), active, "{link}");
        }
    }

    #[test]
    fn a_small_mtu_is_info_and_a_tiny_one_is_an_error() {
        let set =
            |mtu| with(move |facts| facts.links.iter_mut().for_each(|link| link.mtu = Known::Value(mtu)));
        assert_eq!(set(1500), ["info mtu-below-4096 eth0", "info mtu-below-4096 eth1"]);
        assert_eq!(
            set(1000),
            ["error mtu-too-small eth0", "error mtu-too-small eth1", "error mtu-too-small eth2"]
        );
    }

    #[test]
    fn rails_must_have_the_same_mtu() {
        assert_eq!(with(|facts| facts.links[1].mtu = Known::Value(9000)), ["warning mtu-differs eth1"]);
        let other_model = with(|facts| {
            facts.links[1].mtu = Known::Value(9000);
            facts.functions[1].model = "another".into();
        });
        assert!(other_model.is_empty(), "{other_model:?}");
        let unused = with(|facts| {
            facts.links[1].mtu = Known::Value(9000);
            facts.devices[1].ports[0].state = Known::Value("DOWN".into());
        });
        assert!(!unused.iter().any(|finding| finding.contains("mtu")), "{unused:?}");
    }

    #[test]
    fn the_mtu_of_a_vf_must_not_exceed_that_of_its_pf() {
        assert_eq!(with(|facts| facts.links[2].mtu = Known::Value(9000)), ["warning mtu-vf-above-pf eth2"]);
    }
}
