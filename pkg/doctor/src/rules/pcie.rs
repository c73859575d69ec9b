//! PCI Express: whether the links of cards and GPUs have the maximum speed and width, are fast enough for the port, and lose
//! nothing.

use crate::{
    Finding, FindingId, NodeFacts,
    facts::{
        devices::{DeviceFacts, PortFacts},
        functions::FunctionFacts,
        pci_express::{PcieErrors, PcieLink},
    },
};

const SLOW: FindingId =
    FindingId::new("pcie-speed-reduced", "The PCIe link of a card runs below its maximum speed");
const NARROW: FindingId =
    FindingId::new("pcie-width-reduced", "The PCIe link of a card has fewer lanes than the maximum");
const BELOW_PORT: FindingId =
    FindingId::new("pcie-below-port", "The PCIe link of a card is slower than its network port");
const ERRORS: FindingId =
    FindingId::new("pcie-errors", "A card or a GPU reported PCIe errors that lost a transaction");
const SMALL_READS: FindingId =
    FindingId::new("pcie-small-reads", "A fast card reads memory with small PCIe requests");
const ORDERED: FindingId =
    FindingId::new("pcie-ordered-writes", "A card may not use relaxed ordering for its PCIe writes");
const REMOTE: FindingId = FindingId::new("interrupts-remote", "No CPU near a card handles its interrupts");

pub(super) const IDS: &[FindingId] = &[SLOW, NARROW, BELOW_PORT, ERRORS, SMALL_READS, ORDERED, REMOTE];

/// The size of a read request that vendors of cards recommend for high speeds, in bytes.
const RECOMMENDED_READ_REQUEST: u32 = 4096;
/// The speed of a port in Gb/s from which the size and the order of requests limit it.
const FAST_PORT: f64 = 100.0;

/// Checks the PFs with RDMA, and the GPUs. A VF has no PCIe link of its own.
pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for pf in facts.functions.iter().filter(|function| function.pf.is_none() && function.has_rdma()) {
        // Where the site file says what the link has to have, the card's own maximum says nothing more.
        let expected = facts.role_of_function(&pf.address).and_then(|role| role.pcie).unwrap_or_default();
        let is_slow = pf.pcie.speed.zip(pf.pcie.max_speed).is_some_and(|(now, max)| now < max);
        if is_slow && expected.speed.is_none() {
            let text = "the PCIe link of the card runs below its maximum speed";
            found.push(SLOW.warning(&pf.address, text).because(evidence(&pf.pcie)).fix(RESEAT));
        }
        if expected.width.is_none() {
            found.extend(narrow(&pf.address, "card", &pf.pcie));
        }
        if expected.width.is_none() || expected.speed.is_none() {
            found.extend(below_port(facts, pf));
        }
        found.extend(errors(&pf.address, "card", pf.pcie_errors));
        found.extend(requests(facts, pf));
        found.extend(remote_interrupts(pf));
    }
    // An idle GPU reduces the speed of its link to save power. Fewer lanes than an equal GPU has are a fault, and fewer than it
    // could have may be how the node was built.
    for gpu in &facts.gpus {
        let equal = facts.gpus.iter().filter(|other| other.model == gpu.model);
        let is_expected = facts.gpu_role(gpu).is_some_and(|role| role.pcie_width.is_some());
        if !is_expected && equal.into_iter().any(|other| other.pcie.width > gpu.pcie.width) {
            found.extend(narrow(&gpu.address, "GPU", &gpu.pcie));
        }
        found.extend(errors(&gpu.address, "GPU", gpu.pcie_errors));
    }
}

const RESEAT: &str = "reseat the card; check slot, riser and BIOS settings; the slot itself may be limited";

fn evidence(link: &PcieLink) -> String {
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
}

fn narrow(address: &str, what: &str, link: &PcieLink) -> Option<Finding> {
    link.width.zip(link.max_width).filter(|(now, max)| now < max)?;
    let text = format!("the PCIe link of the {what} has fewer lanes than the maximum");
    Some(NARROW.warning(address, text).because(evidence(link)).fix(RESEAT))
}

fn errors(address: &str, what: &str, errors: PcieErrors) -> Option<Finding> {
    let PcieErrors { nonfatal, fatal } = errors;
    if nonfatal + fatal == 0 {
        return None;
    }
    let text = format!("the {what} reported {} PCIe errors since the boot", nonfatal + fatal);
    let finding = ERRORS.warning(address, text).because(format!("nonfatal: {nonfatal}; fatal: {fatal}"));
    Some(
        finding.fix(
            "see the kinds of errors in dmesg; reseat the card or the riser; if it continues, replace them",
        ),
    )
}

/// Checks how a card with a fast port reads and writes memory.
fn requests(facts: &NodeFacts, pf: &FunctionFacts) -> Vec<Finding> {
    // A VF that was passed to a virtual machine looks like a PF, but has no link of its own, and zeros in this register.
    let Some(control) = pf.pcie_control.filter(|_| pf.pcie.width.is_some()) else { return Vec::new() };
    let Some(speed) = port_gigabits(facts, pf).filter(|speed| *speed >= FAST_PORT) else { return Vec::new() };
    let mut found = Vec::new();
    if control.max_read_request < RECOMMENDED_READ_REQUEST {
        let text = format!("the card requests at most {} bytes with one read", control.max_read_request);
        let finding = SMALL_READS.info(&pf.address, text);
        found.push(finding.because(format!("port: {speed} Gb/s")).fix(format!(
            "compare bandwidth with {RECOMMENDED_READ_REQUEST} bytes: BIOS, firmware, or MaxReadReq with setpci"
        )));
    }
    if !control.relaxed_ordering {
        let text = "the card may not use relaxed ordering: writes wait for those before them";
        found.push(ORDERED.info(&pf.address, text).because("lspci -vv: RlxdOrd-").fix(
            "enable relaxed ordering in the BIOS and in the firmware of the card; the kernel disables it on some CPUs",
        ));
    }
    found
}

fn remote_interrupts(pf: &FunctionFacts) -> Option<Finding> {
    let interrupts = &pf.interrupts;
    if !interrupts.are_remote() {
        return None;
    }
    let list = |cpus: &std::collections::BTreeSet<u32>| {
        let shown: Vec<_> = cpus.iter().take(8).map(u32::to_string).collect();
        format!("{}{}", shown.join(", "), if cpus.len() > 8 { ", …" } else { "" })
    };
    let finding = REMOTE.warning(&pf.address, "no CPU near the card handles its interrupts");
    Some(
        finding
            .because(format!("{} interrupts, handled by CPUs {}", interrupts.number, list(&interrupts.cpus)))
            .because(format!("CPUs near the card: {}", list(&interrupts.local_cpus)))
            .fix("exclude the card's interrupts from irqbalance, and write its CPUs to /proc/irq/N/smp_affinity_list"),
    )
}

fn below_port(facts: &NodeFacts, pf: &FunctionFacts) -> Option<Finding> {
    let pcie = pf.pcie.gigabits()?;
    let (device, port) = port_of(facts, pf)?;
    let speed = port_gigabits(facts, pf)?;
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

fn port_of<'f>(facts: &'f NodeFacts, pf: &FunctionFacts) -> Option<(&'f DeviceFacts, &'f PortFacts)> {
    let device = facts.devices.iter().find(|device| device.function.as_deref() == Some(&pf.address))?;
    Some((device, device.ports.first()?))
}

/// Returns the speed of a card's port in Gb/s. That of the link is more precise than the rate of a RoCE port; an InfiniBand port
/// has no link.
fn port_gigabits(facts: &NodeFacts, pf: &FunctionFacts) -> Option<f64> {
    let (_, port) = port_of(facts, pf)?;
    match port.link.as_deref().and_then(|name| facts.link(name)) {
        Some(link) => link.gigabits(),
        None => port.gigabits(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use super::*;
    use crate::{
        Known,
        facts::{functions::Gpu, interrupts::Interrupts, pci_express::PcieControl},
    };

    #[test]
    fn a_link_below_its_maximum_is_reported() {
        assert_eq!(
            with(|facts| facts.functions[0].pcie.speed = Some(8.0)),
            ["warning pcie-speed-reduced 0000:af:00.0"]
        );
        assert_eq!(
            with(|facts| facts.functions[0].pcie.width = Some(8)),
            ["warning pcie-width-reduced 0000:af:00.0"]
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
        assert_eq!(found, ["warning pcie-below-port 0000:af:00.0"]);
        // An InfiniBand port has no link.
        let infiniband = |rate: &'static str| {
            with(move |facts| {
                let port = &mut facts.devices[0].ports[0];
                (port.link, port.gids) = (None, None);
                (port.layer, port.rate) = (Known::Value("InfiniBand".into()), Known::Value(rate.into()));
            })
        };
        assert_eq!(infiniband("400 Gb/sec (4X NDR)"), ["warning pcie-below-port 0000:af:00.0"]);
        assert!(infiniband("200 Gb/sec (4X HDR)").is_empty());
    }

    #[test]
    fn errors_of_cards_and_gpus_are_reported() {
        let errors = PcieErrors { nonfatal: 2, fatal: 0 };
        assert_eq!(
            with(|facts| facts.functions[0].pcie_errors = errors),
            ["warning pcie-errors 0000:af:00.0"]
        );
        let gpu = |change: fn(&mut Gpu)| {
            with(|facts| {
                let mut gpu = Gpu { address: "0000:01:00.0".into(), numa_node: Some(0), ..Gpu::default() };
                change(&mut gpu);
                facts.gpus.push(gpu);
            })
        };
        let healthy = gpu(|_| {});
        let more = |change| gpu(change).into_iter().filter(|id| !healthy.contains(id)).collect::<Vec<_>>();
        assert_eq!(more(|gpu| gpu.pcie_errors.fatal = 1), ["warning pcie-errors 0000:01:00.0"]);
        let as_built = more(|gpu| (gpu.pcie.width, gpu.pcie.max_width) = (Some(8), Some(16)));
        assert!(as_built.is_empty(), "a slot with eight lanes: {as_built:?}");
        let idle = more(|gpu| (gpu.pcie.speed, gpu.pcie.max_speed) = (Some(2.5), Some(32.0)));
        assert!(idle.is_empty(), "an idle GPU saves power: {idle:?}");
    }

    #[test]
    fn a_gpu_with_fewer_lanes_than_an_equal_one_is_reported() {
        let gpu = |address: &str, model: &str, width| Gpu {
            address: address.into(),
            model: model.into(),
            numa_node: Some(0),
            pcie: PcieLink { width: Some(width), max_width: Some(16), ..PcieLink::default() },
            ..Gpu::default()
        };
        let narrow = |gpus: Vec<Gpu>| {
            let mut found = with(|facts| facts.gpus = gpus);
            found.retain(|finding| finding.contains(" pcie"));
            found
        };
        let found =
            narrow(vec![gpu("01:00.0", "h100", 16), gpu("02:00.0", "h100", 8), gpu("03:00.0", "l4", 8)]);
        assert_eq!(found, ["warning pcie-width-reduced 02:00.0"]);
    }

    #[test]
    fn small_reads_and_ordered_writes_are_reported_of_fast_ports() {
        let slow = PcieControl { max_read_request: 512, relaxed_ordering: false };
        let found = with(|facts| facts.functions[0].pcie_control = Some(slow));
        assert_eq!(found, ["info pcie-small-reads 0000:af:00.0", "info pcie-ordered-writes 0000:af:00.0"]);
        let passed_through = with(|facts| {
            facts.functions[0].pcie = PcieLink::default();
            facts.functions[0].pcie_control =
                Some(PcieControl { max_read_request: 128, relaxed_ordering: false });
        });
        assert!(passed_through.is_empty(), "a VF in a virtual machine: {passed_through:?}");
        let good = PcieControl { max_read_request: 4096, relaxed_ordering: true };
        assert!(with(|facts| facts.functions[0].pcie_control = Some(good)).is_empty());
        let found = with(|facts| {
            facts.functions[0].pcie_control = Some(slow);
            for link in &mut facts.links {
                link.speed = Known::Value(25_000);
            }
        });
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn interrupts_on_the_other_numa_node_are_reported() {
        let interrupts = |cpus: &[u32]| {
            let (cpus, number) = (cpus.iter().copied().collect(), cpus.len());
            with(|facts| {
                facts.functions[0].interrupts = Interrupts { number, cpus, local_cpus: (0..4).collect() };
            })
        };
        assert_eq!(interrupts(&[4, 5]), ["warning interrupts-remote 0000:af:00.0"]);
        assert!(interrupts(&[3, 4, 5]).is_empty(), "more queues than near CPUs");
        assert!(interrupts(&[]).is_empty());
    }
}
