//! PCI Express: whether a card's slot lets it be as fast as it could.

use crate::{Finding, FindingId, NodeFacts, facts::functions::FunctionFacts};

const SLOW: FindingId =
    FindingId::new("pcie-speed-reduced", "A card's PCIe link runs at less than its maximum speed");
const NARROW: FindingId =
    FindingId::new("pcie-width-reduced", "A card's PCIe link has fewer lanes than it could have");
const BELOW_PORT: FindingId =
    FindingId::new("pcie-below-port", "A card's PCIe link is slower than the card's network port");

pub(super) const IDS: &[FindingId] = &[SLOW, NARROW, BELOW_PORT];

/// Of cards with RDMA. A VF has no link of its own.
pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let pfs = facts.functions.iter().filter(|function| function.pf.is_none());
    for pf in pfs.filter(|pf| !pf.rdma.is_empty() || !pf.uverbs.is_empty()) {
        let link = &pf.pcie;
        let evidence = || {
            let shown = |value: Option<String>| value.unwrap_or("?".into());
            let speed = |value: Option<f64>| shown(value.map(|value| format!("{value} GT/s")));
            let width = |value: Option<u32>| shown(value.map(|value| format!("x{value}")));
            format!(
                "now {} {}, at most {} {}",
                speed(link.speed),
                width(link.width),
                speed(link.max_speed),
                width(link.max_width)
            )
        };
        let fix =
            "seat the card again; check slot, riser and BIOS settings; a slot of the board may have no more";
        if link.speed.zip(link.max_speed).is_some_and(|(now, max)| now < max) {
            let text = "the card's PCIe link is slower than it could be";
            found.push(SLOW.warning(&pf.address, text).because(evidence()).fix(fix));
        }
        if link.width.zip(link.max_width).is_some_and(|(now, max)| now < max) {
            let text = "the card's PCIe link has fewer lanes than it could have";
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
    // A link knows its speed better than a RoCE port does; InfiniBand has none.
    let speed = match link {
        Some(link) => link.gigabits()?,
        None => port.gigabits()?,
    };
    if pcie >= speed {
        return None;
    }
    let finding = BELOW_PORT.warning(
        &pf.address,
        format!("the port has {speed} Gb/s, and the PCIe link carries {pcie:.0} Gb/s at most"),
    );
    Some(
        finding
            .because(format!("{}: {speed} Gb/s", device.object(port)))
            .fix("use a faster or wider slot, if the card can"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;

    #[test]
    fn a_link_below_its_maximum_is_told_of() {
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
            "what is not known says nothing"
        );
    }

    #[test]
    fn a_slot_that_is_slower_than_the_port_is_told_of() {
        let found = with(|facts| {
            let pcie = &mut facts.functions[0].pcie;
            (pcie.speed, pcie.max_speed, pcie.width, pcie.max_width) =
                (Some(8.0), Some(8.0), Some(8), Some(8));
        });
        assert_eq!(found, ["pcie-below-port 0000:af:00.0"]);
    }
}
