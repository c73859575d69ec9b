//! PCI Express: whether the link of a card has the maximum speed and width, and is fast enough for the port.

use crate::{Finding, FindingId, NodeFacts, facts::functions::FunctionFacts};

const SLOW: FindingId =
    FindingId::new("pcie-speed-reduced", "The PCIe link of a card runs below its maximum speed");
const NARROW: FindingId =
    FindingId::new("pcie-width-reduced", "The PCIe link of a card has fewer lanes than the maximum");
const BELOW_PORT: FindingId =
    FindingId::new("pcie-below-port", "The PCIe link of a card is slower than its network port");

pub(super) const IDS: &[FindingId] = &[SLOW, NARROW, BELOW_PORT];

/// Checks the PFs with RDMA. A VF has no PCIe link of its own.
pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let pfs = facts.functions.iter().filter(|function| function.pf.is_none());
    for pf in pfs.filter(|pf| !pf.rdma.is_empty() || !pf.uverbs.is_empty()) {
        let link = &pf.pcie;
        let evidence = || {
            let shown = |value: Option<String>| value.unwrap_or("?".into());
            let speed = |value: Option<f64>| shown(value.map(|value| format!("{value} GT/s")));
            let width = |value: Option<u32>| shown(value.map(|value| format!("x{value}")));
            format!(
                "current: {} {}; maximum: {} {}",
                speed(link.speed),
                width(link.width),
                speed(link.max_speed),
                width(link.max_width)
            )
        };
        let fix = "reseat the card; check slot, riser and BIOS settings; the slot itself may be limited";
        if link.speed.zip(link.max_speed).is_some_and(|(now, max)| now < max) {
            let text = "the PCIe link of the card runs below its maximum speed";
            found.push(SLOW.warning(&pf.address, text).because(evidence()).fix(fix));
        }
        if link.width.zip(link.max_width).is_some_and(|(now, max)| now < max) {
            let text = "the PCIe link of the card has fewer lanes than the maximum";
            found.push(NARROW.warning(&pf.address, text).because(evidence()).fix(fix));
        }
        found.extend(below_port(facts, pf));
    }
}

fn below_port(facts: &NodeFacts, pf: &FunctionFacts) -> Option<Finding> {
    let pcie = pf.pcie.gigabits()?;
    let device = facts.devices.iter().find(|device| device.function.as_deref() == Some(&pf.address))?;
    let port = device.ports.first()?;
    let link = port.link.as_deref().and_then(|name| facts.link(name));
    // The speed of the link is more precise than the rate of a RoCE port. An InfiniBand port has no link.
    let speed = match link {
        Some(link) => link.gigabits()?,
        None => port.gigabits()?,
    };
    if pcie >= speed {
        return None;
    }
    let finding = BELOW_PORT
        .warning(&pf.address, format!("the port has {speed} Gb/s, but the PCIe link only {pcie:.0} Gb/s"));
    Some(
        finding
            .because(format!("{}: {speed} Gb/s", device.object(port)))
            .fix("use a faster or wider slot, if the card supports it"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;

    #[test]
    fn a_link_below_its_maximum_is_reported() {
        assert_eq!(
            with(|facts| facts.functions[0].pcie.speed = Some(8.0)),
            ["pcie-speed-reduced 0000:af:00.0"]
        );
        assert_eq!(
            with(|facts| facts.functions[0].pcie.width = Some(8)),
            ["pcie-width-reduced 0000:af:00.0"]
        );
        assert!(
            with(|facts| facts.functions[0].pcie.speed = None).is_empty(),
            "an unknown value does not lead to a finding"
        );
    }

    #[test]
    fn a_slot_that_is_slower_than_the_port_is_reported() {
        let found = with(|facts| {
            let pcie = &mut facts.functions[0].pcie;
            (pcie.speed, pcie.max_speed, pcie.width, pcie.max_width) =
                (Some(8.0), Some(8.0), Some(8), Some(8));
        });
        assert_eq!(found, ["pcie-below-port 0000:af:00.0"]);
    }
}
