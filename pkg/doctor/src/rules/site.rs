//! Comparison of the node with the site file, `/etc/silkrail/site.yaml`.

use site::{GpuRole, PortRole};

use crate::{
    AcceptedFinding, Finding, FindingId, NodeFacts,
    facts::{
        devices::{DeviceFacts, PortFacts},
        functions::FunctionFacts,
        site::function_identity,
    },
};

const BROKEN: FindingId =
    FindingId::new("site-file-broken", "The site file is invalid: no expectation of it is applied");
const FEWER: FindingId =
    FindingId::new("site-ports-missing", "The node has fewer ports of a role than the site file says");
const MORE: FindingId =
    FindingId::new("site-ports-more", "The node has more ports of a role than the site file says");
const CABLED: FindingId =
    FindingId::new("site-port-cabled", "A port is active that has no cable according to the site file");
const RATE: FindingId =
    FindingId::new("site-rate-lower", "A port runs at a lower rate than the site file says");
const MTU: FindingId = FindingId::new("site-mtu-differs", "The MTU of a port differs from the site file");
const LAYER: FindingId =
    FindingId::new("site-link-layer-differs", "The link layer of a port differs from the site file");
const FIRMWARE: FindingId = FindingId::new(
    "site-firmware-differs",
    "The firmware of a card is none of the versions of the site file",
);
const PCIE: FindingId = FindingId::new(
    "site-pcie-lower",
    "The PCIe link of a card or a GPU has fewer lanes, or is slower, than the site file says",
);
const DCB: FindingId = FindingId::new(
    "site-dcb-differs",
    "PFC, priorities or traffic classes of a port differ from the site file",
);
const GPUS: FindingId =
    FindingId::new("site-gpus-missing", "The node has fewer GPUs than the site file says");
const UNKNOWN: FindingId =
    FindingId::new("site-ignore-unknown", "The site file ignores a kind of finding that does not exist");
const OVER: FindingId =
    FindingId::new("site-ignore-over", "An entry of the ignore list of the site file is over");

pub(super) const IDS: &[FindingId] =
    &[BROKEN, FEWER, MORE, CABLED, RATE, MTU, LAYER, FIRMWARE, PCIE, DCB, GPUS, UNKNOWN, OVER];

/// A port of which the site file says whether it has a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedPort {
    /// The RDMA device.
    pub device: String,
    /// The number of the port.
    pub port: u32,
    /// Whether it has a cable, and has to be up.
    pub is_up: bool,
}

/// Returns the ports of which the site file says whether they have a cable.
pub fn expected_ports(facts: &NodeFacts) -> Vec<ExpectedPort> {
    let expected = |(device, port): (&DeviceFacts, &PortFacts)| {
        let is_up = facts.role(device, port)?.cabled?;
        Some(ExpectedPort { device: device.name.clone(), port: port.number, is_up })
    };
    facts.ports().filter_map(expected).collect()
}

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let site = &facts.site;
    if let Some(problem) = &site.problem {
        let finding = BROKEN.error(&site.file, "the file is invalid: no expectation of it is applied");
        found.push(finding.because(problem).fix("correct the file; conf/node/site.yaml is an example"));
    }
    for role in site.content.roles_of(&site.node) {
        found.extend(role.ports.and_then(|expected| number(facts, role, expected)));
    }
    for (device, port) in facts.ports() {
        if let Some(role) = facts.role(device, port) {
            found.extend(judge(facts, device, port, role));
        }
    }
    found.extend(pcie(facts));
    found.extend(gpus(facts));
    for entry in site.content.ignore.iter().filter(|entry| entry.nodes.include(&site.node)) {
        if let Some(until) = entry.until.as_ref().filter(|until| until.is_over(site.time)) {
            let object = entry.object.as_ref().map_or("*".to_owned(), ToString::to_string);
            let finding =
                OVER.info(&site.file, format!("the entry for {} of {object} is over", entry.finding));
            let finding = finding.because(format!("until: {until}; reason: {}", entry.reason));
            found.push(finding.fix("remove it, or set another day"));
        }
    }
}

/// Returns a finding for each kind of the ignore list that does not exist.
pub(super) fn unknown_ids(facts: &NodeFacts, is_known: impl Fn(&str) -> bool) -> Vec<Finding> {
    let entries = facts.site.content.ignore.iter().filter(|entry| !is_known(&entry.finding));
    let unknown = entries.map(|entry| {
        let text = format!("it ignores {:?}, which is no kind of finding", entry.finding);
        UNKNOWN
            .warning(&facts.site.file, text)
            .fix("correct the entry; silkrail doctor --list shows all kinds")
    });
    unknown.collect()
}

/// Separates the findings that the site file accepts.
pub(super) fn without_accepted(
    facts: &NodeFacts,
    findings: Vec<Finding>,
) -> (Vec<Finding>, Vec<AcceptedFinding>) {
    let (site, mut accepted) = (&facts.site, Vec::new());
    let mut is_reported = |finding: &Finding| {
        let Some(entry) = site.content.ignores(finding.id, &finding.object, &site.node, site.time) else {
            return true;
        };
        accepted.push(AcceptedFinding {
            id: finding.id,
            object: finding.object.clone(),
            reason: entry.reason.clone(),
            until: entry.until.as_ref().map(ToString::to_string),
        });
        false
    };
    let reported = findings.into_iter().filter(|finding| is_reported(finding)).collect();
    (reported, accepted)
}

/// Returns the sentence that names a key of a role: `/etc/silkrail/site.yaml: role rail: rate: 400`.
fn said(facts: &NodeFacts, role: &PortRole, key: &str, value: impl std::fmt::Display) -> String {
    format!("{}: role {}: {key}: {value}", facts.site.file, role.name)
}

/// Compares the number of ports of a role.
fn number(facts: &NodeFacts, role: &PortRole, expected: usize) -> Option<Finding> {
    let is_of_role = |device, port| facts.role(device, port).is_some_and(|other| other.name == role.name);
    let ports: Vec<_> = facts.ports().filter(|(device, port)| is_of_role(device, port)).collect();
    let names = |key: &str| {
        let list: Vec<_> = ports.iter().map(|(device, port)| device.object(port)).collect();
        format!("{key}: {}", if list.is_empty() { "none".to_owned() } else { list.join(", ") })
    };
    let (object, is) = (format!("role {}", role.name), ports.len());
    let text = format!("the node has {is} ports of the role {}; expected {expected}", role.name);
    if is > expected {
        let finding = MORE.warning(object, text).because(said(facts, role, "ports", expected));
        return Some(finding.because(names("ports")).fix("correct the number, or the match of the role"));
    }
    // The device of a PF can be in the namespace of a pod, where neither its name nor its link is visible; or only its link.
    if is + elsewhere(facts, role) >= expected {
        return None;
    }
    let finding = FEWER.error(object, text).because(said(facts, role, "ports", expected));
    Some(finding.because(names("found")).because(format!("match: {}", role.matches)).fix(
        "look for the missing card: lspci, dmesg, silkrail vf list (a PF without a driver); reseat or replace it, or correct \
         the match of the role",
    ))
}

/// Returns the number of PFs whose RDMA device or link is in another namespace, and that may be of a role.
fn elsewhere(facts: &NodeFacts, role: &PortRole) -> usize {
    let is_away = |pf: &&FunctionFacts| {
        let has_lost_link = !pf.rdma.is_empty() && pf.links.is_empty() && role.matches.link.is_some();
        pf.pf.is_none() && ((pf.rdma.is_empty() && !pf.uverbs.is_empty()) || has_lost_link)
    };
    facts
        .functions
        .iter()
        .filter(is_away)
        .filter(|pf| role.matches.matches_function(&function_identity(Some(pf))))
        .count()
}

/// Compares a port with its role.
fn judge(facts: &NodeFacts, device: &DeviceFacts, port: &PortFacts, role: &PortRole) -> Vec<Finding> {
    let object = device.object(port);
    let link = port.link.as_deref().and_then(|name| facts.link(name));
    let mut found = Vec::new();
    if role.is_uncabled() && port.is_active() {
        let text = "the port is active, although it is expected to have no cable";
        let finding = CABLED.info(&object, text).because(said(facts, role, "cabled", false));
        found.push(finding.fix("set cabled: true, so that a later failure is reported"));
    }
    let is_up = port.is_active() && !role.is_uncabled();
    let rate = link.and_then(|link| link.gigabits()).or_else(|| port.gigabits());
    if let (Some(rate), Some(expected)) = (rate.filter(|_| is_up), role.rate)
        && rate < f64::from(expected)
    {
        let text = format!("the port runs at {rate} Gb/s; expected {expected} Gb/s");
        let finding = RATE.error(&object, text).because(said(facts, role, "rate", expected));
        found.push(finding.fix(
            "check the cable, the module and the speed of the switch port; ethtool shows the link modes",
        ));
    }
    if let (Some(layer), Some(expected)) = (port.layer.get(), role.link_layer)
        && layer != expected.name()
    {
        let text = format!("the link layer of the port is {layer}; expected {}", expected.name());
        let finding = LAYER.error(&object, text).because(said(facts, role, "linkLayer", expected.name()));
        found.push(
            finding.fix("set the type of the port in the firmware (mlxconfig LINK_TYPE_P1), and reboot"),
        );
    }
    let mtu = link.and_then(|link| link.mtu.get()).filter(|_| !role.is_uncabled());
    if let (Some(link), Some(mtu), Some(expected)) = (link, mtu, role.mtu)
        && *mtu != expected
    {
        let finding = MTU.error(&link.name, format!("the MTU is {mtu}; expected {expected}"));
        found.push(finding.because(said(facts, role, "mtu", expected)).fix(format!(
            "ip link set {} mtu {expected}, and change the network configuration of the host, or mtu in the node file",
            link.name
        )));
    }
    found.extend(firmware(facts, device, port, role));
    found.extend(dcb(facts, port, role));
    found
}

/// Compares the firmware of a device, once for all of its ports.
fn firmware(facts: &NodeFacts, device: &DeviceFacts, port: &PortFacts, role: &PortRole) -> Option<Finding> {
    let (is, expected) = (device.firmware.get()?, role.firmware.as_ref()?);
    let is_first = device.ports.first().is_some_and(|first| first.number == port.number);
    if !is_first || expected.iter().any(|version| version.matches(is)) {
        return None;
    }
    let list = expected.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let finding = FIRMWARE.warning(&device.name, format!("the firmware is {is}; expected {list}"));
    let finding = finding.because(said(facts, role, "firmware", format!("[{list}]")));
    Some(finding.fix("drain the node, and update the firmware of the card"))
}

/// Compares the DCB settings of a port. Those of a port without a link of its own are not read.
fn dcb(facts: &NodeFacts, port: &PortFacts, role: &PortRole) -> Option<Finding> {
    let (link, wanted) = (port.link.as_deref()?, role.dcb.as_ref()?);
    let settings = facts.link_settings.iter().find(|settings| settings.link == link)?;
    if settings.dcb_unread {
        return None;
    }
    let settings = settings.dcb.clone().unwrap_or_default();
    let unsupported = wanted.unsupported(&settings).into_iter().map(|what| format!("no support for {what}"));
    let changes = wanted.changes(&settings).into_iter().map(|change| format!("needed: {change}"));
    let differences: Vec<String> = unsupported.chain(changes).collect();
    if differences.is_empty() || role.is_uncabled() {
        return None;
    }
    let finding = DCB.error(link, "the port does not have the DCB settings of its role: packets can be lost");
    let finding = finding.because(said(facts, role, "dcb", "as listed")).because_all(differences);
    Some(finding.fix("set the same dcb in the node file, drain the node, and run: silkrail apply"))
}

/// Compares the PCIe links of cards.
fn pcie(facts: &NodeFacts) -> Vec<Finding> {
    let pfs = facts.functions.iter().filter(|function| function.pf.is_none());
    let lower = pfs.filter_map(|pf| {
        let role = facts.role_of_function(&pf.address)?;
        let expected = role.pcie?;
        let (mut is, mut wanted, mut evidence) = (Vec::new(), Vec::new(), Vec::new());
        if let Some((now, lowest)) = pf.pcie.speed.zip(expected.speed).filter(|(now, lowest)| now < lowest) {
            is.push(format!("{now} GT/s"));
            wanted.push(format!("{lowest} GT/s"));
            evidence.push(said(facts, role, "pcie.speed", lowest));
        }
        if let Some((now, lowest)) = pf.pcie.width.zip(expected.width).filter(|(now, lowest)| now < lowest) {
            is.push(format!("x{now}"));
            wanted.push(format!("x{lowest}"));
            evidence.push(said(facts, role, "pcie.width", lowest));
        }
        let text = format!("the PCIe link of the card has {}; expected {}", is.join(" "), wanted.join(" "));
        (!is.is_empty()).then(|| PCIE.warning(&pf.address, text).because_all(evidence).fix(RESEAT))
    });
    lower.collect()
}

const RESEAT: &str = "reseat the card; check slot, riser and BIOS settings";

/// Compares the number of GPUs, and their PCIe links.
fn gpus(facts: &NodeFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_of = |role: &GpuRole, gpu| facts.gpu_role(gpu).is_some_and(|other| std::ptr::eq(other, role));
    for role in facts.site.content.gpus_of(&facts.site.node) {
        let gpus: Vec<_> = facts.gpus.iter().filter(|gpu| is_of(role, gpu)).collect();
        if let Some(expected) = role.number.filter(|expected| gpus.len() < *expected) {
            let finding =
                GPUS.error("GPUs", format!("the node has {} GPUs; expected {expected}", gpus.len()));
            let there = gpus.iter().map(|gpu| gpu.address.as_str()).collect::<Vec<_>>().join(", ");
            found.push(
                finding
                    .because(format!("{}: gpus: number: {expected}", facts.site.file))
                    .because(format!("found: {}", if there.is_empty() { "none" } else { &there }))
                    .fix("look for the missing GPU: lspci, and dmesg for Xid 79 (it fell off the bus)"),
            );
        }
        for gpu in gpus {
            let Some((is, expected)) = gpu.pcie.width.zip(role.pcie_width).filter(|(is, wants)| is < wants)
            else {
                continue;
            };
            let text = format!("the PCIe link of the GPU has x{is}; expected x{expected}");
            let finding = PCIE.warning(&gpu.address, text);
            found.push(
                finding.because(format!("{}: gpus: pcieWidth: {expected}", facts.site.file)).fix(RESEAT),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests;
