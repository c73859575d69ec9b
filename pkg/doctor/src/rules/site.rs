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
mod tests {
    use dcb::{DcbSettings, Pfc};
    use link_settings::LinkSettings;
    use site::SiteFile;

    use super::super::testing::{findings, healthy, with};
    use super::*;
    use crate::{
        Known, Severity,
        facts::{functions::Gpu, pci_express::PcieLink},
    };

    const NOVEMBER_2026: u64 = 1_795_161_662;

    fn expect(facts: &mut NodeFacts, text: &str) {
        facts.site.file = "/site.yaml".into();
        facts.site.node = "gpu-01".into();
        facts.site.time = NOVEMBER_2026;
        facts.site.content = SiteFile::parse(text).unwrap();
    }

    /// The role `rail` of both PFs, with one expectation.
    fn rail(more: &str) -> String {
        format!("roles: [{{name: rail, match: {{link: 'eth[01]'}}, {more}}}]")
    }

    /// Returns the findings of a node with a site file after a change.
    fn found(text: &str, change: impl FnOnce(&mut NodeFacts)) -> Vec<String> {
        with(|facts| {
            expect(facts, text);
            change(facts);
        })
    }

    /// A port without a cable.
    fn unplug(facts: &mut NodeFacts) {
        let port = &mut facts.devices[1].ports[0];
        (port.state, port.physical) = (Known::Value("DOWN".into()), Known::Value("Polling".into()));
        facts.links[1].carrier = Known::Value(0);
    }

    #[test]
    fn a_port_without_a_cable_is_no_fault_if_it_is_expected_to_have_none() {
        let spare = "roles: [{name: spare, match: {link: eth1}, cabled: false}]";
        assert!(found(spare, unplug).is_empty());
        assert_eq!(
            found("roles: [{name: spare, match: {link: eth9}, cabled: false}]", unplug),
            ["link-no-carrier eth1"]
        );
        let other_node = "roles: [{name: spare, nodes: ['cpu-*'], match: {link: eth1}, cabled: false}]";
        assert_eq!(found(other_node, unplug), ["link-no-carrier eth1"]);
        let down = |facts: &mut NodeFacts| {
            unplug(facts);
            (facts.links[1].up, facts.links[1].mtu) = (Known::Value(false), Known::Value(576));
        };
        assert!(found(spare, down).is_empty());
        let infiniband = |facts: &mut NodeFacts| {
            unplug(facts);
            facts.devices[1].ports[0].layer = Known::Value("InfiniBand".into());
        };
        assert!(found(spare, infiniband).is_empty());
        assert_eq!(found(spare, |_| {}), ["site-port-cabled mlx5_1 port 1"]);
    }

    #[test]
    fn a_port_that_has_to_have_a_cable_is_an_error_without_one() {
        let findings = findings(|facts| {
            expect(facts, &rail("cabled: true"));
            facts.functions.retain(|function| function.address != "0000:b0:00.1");
            facts.functions[1].vfs.clear();
            facts.functions[1].num_vfs = Known::Value(0);
            unplug(facts);
            facts.links[1].up = Known::Value(false);
        });
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((finding.id, finding.severity), ("link-down", Severity::Error));
        assert!(finding.evidence.contains(&"/site.yaml: role rail: cabled: true".to_owned()), "{finding:?}");
    }

    #[test]
    fn the_number_of_ports_is_compared() {
        assert!(found(&rail("ports: 2"), |_| {}).is_empty());
        assert_eq!(found(&rail("ports: 3"), |_| {}), ["site-ports-missing role rail"]);
        assert_eq!(found(&rail("ports: 1"), |_| {}), ["site-ports-more role rail"]);
        // The second device is in the namespace of a pod.
        let of_vendor = "roles: [{name: rail, match: {vendor: 15b3, driver: 'mlx5*'}, ports: 2}]";
        let moved = found(of_vendor, |facts| {
            facts.devices.remove(1);
            facts.functions[1].rdma.clear();
        });
        assert!(!moved.contains(&"site-ports-missing role rail".to_owned()), "{moved:?}");
        // The device is shared, and its link is in the namespace of a pod.
        let by_link = "roles: [{name: rail, match: {vendor: 15b3, link: 'eth*'}, ports: 2}]";
        assert!(found(by_link, |_| {}).is_empty());
        let shared = found(by_link, |facts| {
            facts.devices[1].ports[0].link = None;
            facts.functions[1].links.clear();
        });
        assert!(!shared.contains(&"site-ports-missing role rail".to_owned()), "{shared:?}");
        let gone = found(of_vendor, |facts| {
            facts.devices.remove(1);
            facts.functions.retain(|function| !function.address.starts_with("0000:b0"));
        });
        assert!(gone.contains(&"site-ports-missing role rail".to_owned()), "{gone:?}");
    }

    #[test]
    fn what_a_port_has_is_compared_with_its_role() {
        for (expectation, finding) in [
            ("rate: 100", None),
            ("rate: 200", Some("site-rate-lower mlx5_0 port 1")),
            ("mtu: 4200", None),
            ("mtu: 9000", Some("site-mtu-differs eth0")),
            ("linkLayer: Ethernet", None),
            ("linkLayer: InfiniBand", Some("site-link-layer-differs mlx5_0 port 1")),
            ("firmware: ['16.35.*']", None),
            ("firmware: ['28.*', '16.36.*']", Some("site-firmware-differs mlx5_0")),
            ("pcie: {width: 16, speed: 16}", None),
            ("pcie: {speed: 32}", Some("site-pcie-lower 0000:af:00.0")),
        ] {
            let text = rail(expectation);
            let all = found(&text, |_| {});
            assert_eq!(all.first().map(String::as_str), finding, "{expectation}: {all:?}");
            assert_eq!(all.len(), if finding.is_some() { 2 } else { 0 }, "both rails: {all:?}");
        }
    }

    #[test]
    fn texts_name_key_value_and_remedy() {
        let findings = findings(|facts| expect(facts, &rail("rate: 200")));
        assert_eq!(findings[0].summary, "the port runs at 100 Gb/s; expected 200 Gb/s");
        assert_eq!(findings[0].evidence, ["/site.yaml: role rail: rate: 200"]);
        assert!(findings[0].fix.contains("cable"), "{}", findings[0].fix);
    }

    #[test]
    fn an_expectation_takes_the_place_of_a_guess() {
        let slow = |facts: &mut NodeFacts| {
            facts.functions[0].pcie =
                PcieLink { speed: Some(8.0), max_speed: Some(16.0), width: Some(8), max_width: Some(16) };
        };
        assert_eq!(
            found("roles: []", slow),
            [
                "pcie-speed-reduced 0000:af:00.0",
                "pcie-width-reduced 0000:af:00.0",
                "pcie-below-port 0000:af:00.0"
            ]
        );
        assert!(found(&rail("pcie: {width: 8, speed: 8}"), slow).is_empty());
        let mixed = |facts: &mut NodeFacts| facts.devices[1].firmware = Known::Value("16.35.9999".into());
        assert_eq!(found("roles: []", mixed), ["firmware-mixed mlx5_0, mlx5_1"]);
        assert!(found(&rail("firmware: ['16.35.*']"), mixed).is_empty());
        let mtu =
            |facts: &mut NodeFacts| facts.links.iter_mut().for_each(|link| link.mtu = Known::Value(1500));
        assert_eq!(found("roles: []", mtu), ["mtu-below-4096 eth0", "mtu-below-4096 eth1"]);
        assert!(found(&rail("mtu: 1500"), mtu).is_empty());
        let classes = |facts: &mut NodeFacts| facts.devices[1].ports[0].traffic_class = Some(0);
        assert_eq!(found("roles: []", classes), ["lossless-differs eth0, eth1"]);
        let storage = "roles: [{name: rail, match: {link: eth0}}, {name: storage, match: {link: eth1}}]";
        assert!(found(storage, classes).is_empty());
        assert_eq!(found(&rail("cabled: true"), classes), ["lossless-differs eth0, eth1"]);
    }

    #[test]
    fn the_speed_of_link_modes_is_no_finding_at_the_expected_rate() {
        let modes = |facts: &mut NodeFacts| {
            let modes = ethtool_netlink::LinkModes {
                speed: Some(100_000),
                highest_supported_speed: Some(200_000),
                ..ethtool_netlink::LinkModes::parse(&[]).unwrap()
            };
            facts.link_settings =
                vec![LinkSettings { link: "eth0".into(), modes: Some(modes), ..LinkSettings::default() }];
        };
        assert_eq!(found("roles: []", modes), ["port-below-speed eth0"]);
        assert!(found(&rail("rate: 100"), modes).is_empty());
    }

    #[test]
    fn dcb_settings_are_compared() {
        let dcb = |enabled: Vec<u8>| {
            move |facts: &mut NodeFacts| {
                let settings = |link: &str| LinkSettings {
                    link: link.into(),
                    dcb: Some(DcbSettings {
                        pfc: Some(Pfc { enabled: enabled.clone(), ..Pfc::default() }),
                        ..DcbSettings::default()
                    }),
                    ..LinkSettings::default()
                };
                facts.link_settings = vec![settings("eth0"), settings("eth1")];
            }
        };
        assert!(found(&rail("dcb: {pfc: [0]}"), dcb(vec![0])).is_empty());
        let other = found(&rail("dcb: {pfc: [0, 4]}"), dcb(vec![0]));
        assert_eq!(other, ["site-dcb-differs eth0", "site-dcb-differs eth1"]);
        assert_eq!(found("roles: []", dcb(Vec::new())), ["pfc-off eth0", "pfc-off eth1"]);
        assert!(
            found(&rail("dcb: {pfc: []}"), dcb(Vec::new())).is_empty(),
            "a fabric that is meant to be lossy"
        );
    }

    #[test]
    fn gpus_are_counted_and_their_lanes_compared() {
        let gpus = |widths: &'static [u32]| {
            move |facts: &mut NodeFacts| {
                let gpu = |(number, width): (usize, &u32)| Gpu {
                    address: format!("0000:0{number}:00.0"),
                    model: "0x10de:0x2330".into(),
                    numa_node: Some(0),
                    pcie: PcieLink { width: Some(*width), max_width: Some(16), ..PcieLink::default() },
                    ..Gpu::default()
                };
                facts.gpus = widths.iter().enumerate().map(gpu).collect();
            }
        };
        let only = |text: &str, widths| {
            let mut all = found(text, gpus(widths));
            all.retain(|finding| finding.contains("site") || finding.contains("width"));
            all
        };
        let text = "gpus: [{match: {vendor: 10de, device: '2330'}, number: 2, pcieWidth: 16}]";
        assert!(only(text, &[16, 16]).is_empty());
        assert_eq!(only(text, &[16]), ["site-gpus-missing GPUs"]);
        assert_eq!(only(text, &[16, 8]), ["site-pcie-lower 0000:01:00.0"]);
        assert_eq!(only("roles: []", &[16, 8]), ["pcie-width-reduced 0000:01:00.0"]);
        assert!(only("gpus: [{pcieWidth: 8}]", &[16, 8]).is_empty());
    }

    #[test]
    fn an_accepted_finding_is_listed_and_not_counted() {
        let report = |text: &str| {
            let mut facts = healthy();
            expect(&mut facts, text);
            unplug(&mut facts);
            super::super::examine(&facts)
        };
        let entry = "ignore: [{finding: link-no-carrier, object: eth1, reason: spare, until: 2026-12-31}]";
        let accepted = report(entry);
        assert_eq!((accepted.findings.len(), accepted.counts.error), (0, 0));
        let [ignored] = &accepted.ignored[..] else { panic!("{accepted:?}") };
        assert_eq!((ignored.id, &*ignored.object, &*ignored.reason), ("link-no-carrier", "eth1", "spare"));
        assert_eq!(ignored.until.as_deref(), Some("2026-12-31"));
        let over = report("ignore: [{finding: link-no-carrier, reason: spare, until: 2026-11-19}]");
        let ids: Vec<_> = over.findings.iter().map(|finding| finding.id).collect();
        assert_eq!(ids, ["link-no-carrier", "site-ignore-over"]);
    }

    #[test]
    fn the_file_is_valid() {
        let broken = with(|facts| {
            (facts.site.file, facts.site.problem) = ("/site.yaml".into(), Some("roles[0]".into()));
        });
        assert_eq!(broken, ["site-file-broken /site.yaml"]);
        let unknown = found("ignore: [{finding: link-dwon, reason: spare}]", |_| {});
        assert_eq!(unknown, ["site-ignore-unknown /site.yaml"]);
    }

    #[test]
    fn ports_are_told_for_the_metrics() {
        let mut facts = healthy();
        expect(
            &mut facts,
            "roles: [{name: spare, match: {rdma: mlx5_1}, cabled: false}, \
             {name: rail, match: {vendor: 15b3}, cabled: true}]",
        );
        let port = |device: &str, is_up| ExpectedPort { device: device.into(), port: 1, is_up };
        assert_eq!(expected_ports(&facts), [port("mlx5_0", true), port("mlx5_1", false)]);
    }
}
