//! The physical state and the DCB settings of links with RDMA.

use dcb::{AppSelector, DcbSettings, DcbxMode, host_mode_remedy};
use link_settings::LinkSettings;

use crate::{Finding, FindingId, NodeFacts, facts::devices::PortFacts};

const BELOW: FindingId =
    FindingId::new("port-below-speed", "A port runs below the highest speed of its link modes");
const HOT: FindingId = FindingId::new("module-hot", "A module is hotter than its own limit");
const PFC_OFF: FindingId =
    FindingId::new("pfc-off", "A RoCE port has no priority with PFC: its packets can be lost");
const PRIORITY: FindingId = FindingId::new(
    "pfc-other-priority",
    "RDMA uses a priority without PFC, and PFC is enabled for another one",
);
const PAUSE: FindingId =
    FindingId::new("pause-with-pfc", "A port has PFC and global pause frames, which stop all priorities");
const FIRMWARE: FindingId = FindingId::new(
    "dcb-by-firmware",
    "The firmware of a card manages its DCB settings: it can change what is set",
);

pub(super) const IDS: &[FindingId] = &[BELOW, HOT, PRIORITY, PAUSE, PFC_OFF, FIRMWARE];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for settings in &facts.link_settings {
        found.extend(below_speed(facts, settings));
        found.extend(hot(settings));
        if let (Some(dcb), Some(port)) = (&settings.dcb, active_roce_port(facts, &settings.link)) {
            found.extend(lossless(facts, settings, dcb, port));
        }
    }
}

/// Returns the active RoCE port with this link.
fn active_roce_port<'f>(facts: &'f NodeFacts, link: &str) -> Option<&'f PortFacts> {
    let ports =
        facts.devices.iter().flat_map(|device| device.ports.iter().filter(|port| device.is_roce(port)));
    ports.into_iter().find(|port| port.link.as_deref() == Some(link) && port.is_active())
}

fn below_speed(facts: &NodeFacts, settings: &LinkSettings) -> Option<Finding> {
    let modes = settings.modes.as_ref().filter(|modes| modes.is_below_highest_speed())?;
    facts.link(&settings.link).filter(|link| link.has_carrier())?;
    // The site file says which rate it has to have.
    if facts.role_of_link(&settings.link).is_some_and(|role| role.rate.is_some()) {
        return None;
    }
    let (speed, highest) = (modes.speed?, modes.highest_supported_speed?);
    let text = format!("the port runs at {speed} Mb/s, and supports {highest} Mb/s");
    // A port of an equal card that is faster shows that the speed is not that of the switch.
    let is_slower_than_equal = model(facts, &settings.link).is_some_and(|own| {
        let equal =
            facts.link_settings.iter().filter(|other| model(facts, &other.link).as_ref() == Some(&own));
        equal.filter_map(|other| other.modes.as_ref()?.speed).any(|other| other > speed)
    });
    let finding = match is_slower_than_equal {
        true => BELOW.warning(&settings.link, text),
        false => BELOW.info(&settings.link, text),
    };
    let lanes = modes.lanes.map(|lanes| format!("lanes: {lanes}"));
    Some(finding.because(format!("link modes: {}", modes.supported.join(" "))).because_all(lanes).fix(
        "check the cable, the module and the speed of the switch port: a collective operation waits for the slowest port",
    ))
}

/// Returns the model of the card of a link.
fn model(facts: &NodeFacts, link: &str) -> Option<String> {
    let device = facts
        .devices
        .iter()
        .find(|device| device.ports.iter().any(|port| port.link.as_deref() == Some(link)))?;
    let function =
        facts.functions.iter().find(|function| Some(&function.address) == device.function.as_ref())?;
    Some(function.model.clone())
}

fn hot(settings: &LinkSettings) -> Option<Finding> {
    let module = settings.module.as_ref()?.eeprom.as_ref()?;
    let (is, limits) = (module.temperature_millicelsius?, module.thresholds?.temperature_millicelsius?);
    if is <= limits.high_warning {
        return None;
    }
    let celsius = |thousandths: i32| thousandths / 1000;
    let finding = HOT.warning(&settings.link, format!("its module has {} °C", celsius(is)));
    let because = format!(
        "it warns above {} °C, and raises an alarm above {} °C",
        celsius(limits.high_warning),
        celsius(limits.high_alarm)
    );
    Some(finding.because(because).fix("check the fans and the airflow of the node"))
}

fn lossless(facts: &NodeFacts, settings: &LinkSettings, dcb: &DcbSettings, port: &PortFacts) -> Vec<Finding> {
    let link = &settings.link;
    let mut found = Vec::new();
    let Some(pfc) = &dcb.pfc else { return found };
    let enabled = pfc.enabled.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    match pfc.enabled[..] {
        [] if is_meant_to_be_lossy(facts, link) => {}
        [] => {
            let finding =
                PFC_OFF.info(link, "no priority has PFC: packets of RoCE are lost when a buffer is full");
            found.push(finding.because("dcb pfc show: no priority").fix(
                "if the fabric is meant to be lossless, enable the same priority as on the switches: `dcb: {pfc: [3]}` in the \
                 node file, and silkrail apply; if not, `dcb: {pfc: []}`",
            ));
        }
        _ => found.extend(other_priority(facts, link, dcb, port, &enabled)),
    }
    let pauses = settings.pause.as_ref().is_some_and(|pause| pause.rx || pause.tx);
    if pauses && !pfc.enabled.is_empty() {
        let finding =
            PAUSE.warning(link, "global pause frames are enabled besides PFC, and stop all priorities");
        found
            .push(finding.because(format!("PFC: {enabled}")).fix(format!("ethtool -A {link} rx off tx off")));
    }
    // mlx5 does not say that its firmware manages them: it only does not say that the host does.
    if dcb.dcbx.is_some_and(DcbxMode::is_by_firmware) {
        let finding = FIRMWARE.info(link, "its firmware manages DCB (LLDP), and follows the switch");
        let driver = facts.functions.iter().find(|function| function.links.contains(link));
        let remedy = host_mode_remedy(driver.and_then(|function| function.driver.as_deref()), link);
        let fix = format!("to let the host manage it: {remedy}");
        found.push(finding.because("dcb dcbx show: not host").fix(fix));
    }
    found
}

/// Reports that RDMA uses a priority without PFC. `enabled` are those with PFC.
fn other_priority(
    facts: &NodeFacts,
    link: &str,
    dcb: &DcbSettings,
    port: &PortFacts,
    enabled: &str,
) -> Option<Finding> {
    let has_pfc = |priority: u8| dcb.pfc.as_ref().is_some_and(|pfc| pfc.enabled.contains(&priority));
    let classes = rdma_classes(facts, port);
    let mut without =
        classes.into_iter().filter_map(|(user, class)| Some((user, class, priority_of(dcb, class)?)));
    let (user, class, priority) = without.find(|(.., priority)| !has_pfc(*priority))?;
    let text = format!("{user} the priority {priority}, and PFC is enabled for {enabled}");
    // Without DSCP, packets with a VLAN tag have the priority of the tag, which only their link knows.
    let (finding, source) = match dcb.trusts_dscp() {
        true => (PRIORITY.warning(link, text), "DSCP"),
        false => (PRIORITY.info(link, format!("{text}, unless its packets have a VLAN tag")), "VLAN tag"),
    };
    let because = finding.because(format!("traffic class {class}: DSCP {}", class >> 2));
    Some(because.because(format!("the port derives the priority from the {source}")).fix(
        "set the traffic class of a priority with PFC, or the priority of this DSCP: dscpPriorities in the node file, or dcb app",
    ))
}

/// Returns the known traffic classes of RDMA packets, with their users. One that the driver sets for all packets overrides others.
fn rdma_classes(facts: &NodeFacts, port: &PortFacts) -> Vec<(&'static str, u32)> {
    if let Some(class) = port.traffic_class {
        return vec![("RDMA uses", class)];
    }
    let of_pods = facts.wanted.as_ref().and_then(|wanted| wanted.traffic_class);
    let cm = port.cm_traffic_class.map(|class| ("RDMA CM gives connections", class));
    cm.into_iter().chain(of_pods.map(|class| ("the node file gives pods", class.into()))).collect()
}

/// Whether the node file or the site file says that no priority of a port has PFC.
fn is_meant_to_be_lossy(facts: &NodeFacts, link: &str) -> bool {
    let of_node = facts.wanted.iter().flat_map(|wanted| &wanted.dcb).filter(|dcb| dcb.link == link);
    let of_site = facts.role_of_link(link).and_then(|role| role.dcb.as_ref());
    let mut wanted = of_node.map(|dcb| &dcb.settings).chain(of_site);
    wanted.any(|settings| settings.pfc.as_ref().is_some_and(Vec::is_empty))
}

/// Returns the priority of packets with a traffic class; `None` if it is none.
fn priority_of(dcb: &DcbSettings, class: u32) -> Option<u8> {
    if !dcb.trusts_dscp() {
        // Packets without a VLAN tag have priority 0.
        return Some(0);
    }
    let dscp = u16::try_from(class >> 2).ok().filter(|dscp| *dscp < 64)?;
    let of_dscp = dcb.apps.iter().find(|app| app.selector == AppSelector::Dscp && app.protocol == dscp);
    // Without an entry, the three upper bits are the priority.
    of_dscp.map(|app| app.priority).or_else(|| u8::try_from(dscp >> 3).ok())
}

#[cfg(test)]
mod tests {
    use dcb::{AppPriority, Pfc};
    use ethtool_netlink::{
        LinkModes, Module, ModuleEeprom, ModulePower, ModuleThresholds, Pause, PauseStatistics, Thresholds,
    };

    use super::super::testing::with;
    use super::*;
    use crate::DesiredState;

    fn found(change: impl FnOnce(&mut LinkSettings)) -> Vec<String> {
        let pfc = Pfc { enabled: vec![3], ..Pfc::default() };
        let apps = vec![AppPriority { selector: AppSelector::Dscp, protocol: 26, priority: 3 }];
        let dcb = DcbSettings { pfc: Some(pfc), apps, ..DcbSettings::default() };
        let mut settings = LinkSettings { link: "eth0".into(), dcb: Some(dcb), ..LinkSettings::default() };
        change(&mut settings);
        let mut all = with(move |facts| facts.link_settings.push(settings));
        // eth1 has no such settings here.
        all.retain(|finding| finding != "warning lossless-differs eth0, eth1");
        all
    }

    #[test]
    fn rails_have_the_same_settings() {
        let settings = |link: &str, enabled: Vec<u8>| {
            let pfc = Some(Pfc { enabled, ..Pfc::default() });
            LinkSettings {
                link: link.into(),
                dcb: Some(DcbSettings { pfc, ..DcbSettings::default() }),
                ..LinkSettings::default()
            }
        };
        let of = |second: Vec<u8>| {
            with(|facts| facts.link_settings = vec![settings("eth0", vec![0]), settings("eth1", second)])
        };
        assert!(of(vec![0]).is_empty());
        assert_eq!(of(vec![0, 4]), ["warning lossless-differs eth0, eth1"]);
        // Cards of another model have another purpose, such as storage.
        let other = with(|facts| {
            facts.link_settings = vec![settings("eth0", vec![0]), settings("eth1", vec![0, 4])];
            facts.functions[1].model = "another".into();
        });
        assert!(!other.iter().any(|finding| finding.contains("lossless")), "{other:?}");
    }

    fn dcb(settings: &mut LinkSettings) -> &mut DcbSettings {
        settings.dcb.as_mut().unwrap()
    }

    #[test]
    fn the_priority_of_rdma_has_pfc() {
        // The traffic class 106 of a healthy node is DSCP 26.
        assert!(found(|_| ()).is_empty());
        assert_eq!(found(|settings| dcb(settings).apps[0].priority = 5), ["warning pfc-other-priority eth0"]);
        // DSCP 26 is priority 3 by default, but a port without a DSCP entry uses the VLAN tag.
        assert!(found(|settings| dcb(settings).apps[0].protocol = 48).is_empty());
        assert_eq!(found(|settings| dcb(settings).apps.clear()), ["info pfc-other-priority eth0"]);
        assert_eq!(
            found(|settings| dcb(settings).pfc.as_mut().unwrap().enabled.clear()),
            ["info pfc-off eth0"]
        );
        assert!(found(|settings| settings.dcb = None).is_empty());
    }

    /// Packets of connections and of pods have the priorities of their own traffic classes, unless the driver sets one for all.
    #[test]
    fn the_priorities_of_connections_and_of_pods_have_pfc() {
        let of = |driver: Option<u32>, cm: Option<u32>, pods: Option<u8>| {
            let pfc = Some(Pfc { enabled: vec![3], ..Pfc::default() });
            let apps = vec![AppPriority { selector: AppSelector::Dscp, protocol: 26, priority: 3 }];
            let dcb = Some(DcbSettings { pfc, apps, ..DcbSettings::default() });
            let mut found = with(move |facts| {
                facts.link_settings.push(LinkSettings {
                    link: "eth0".into(),
                    dcb,
                    ..LinkSettings::default()
                });
                let port = &mut facts.devices[0].ports[0];
                (port.traffic_class, port.cm_traffic_class) = (driver, cm);
                facts.wanted = Some(DesiredState { traffic_class: pods, ..DesiredState::default() });
            });
            found.retain(|finding| finding.contains(" pfc"));
            found
        };
        let other = ["warning pfc-other-priority eth0"];
        assert!(of(None, None, None).is_empty() && of(None, Some(106), Some(104)).is_empty());
        assert_eq!(of(None, Some(0), None), other);
        assert_eq!(of(None, Some(106), Some(184)), other);
        assert!(of(Some(106), Some(0), Some(0)).is_empty());
    }

    #[test]
    fn pause_and_firmware_are_reported() {
        let frames =
            |rx, tx| Some(Pause { autonegotiation: false, rx, tx, statistics: PauseStatistics::default() });
        let pause = |rx| frames(rx, false);
        assert_eq!(found(|settings| settings.pause = pause(true)), ["warning pause-with-pfc eth0"]);
        assert_eq!(found(|settings| settings.pause = frames(false, true)), ["warning pause-with-pfc eth0"]);
        assert!(found(|settings| settings.pause = pause(false)).is_empty());
        // Without PFC, global pause frames are what prevents loss.
        let alone =
            found(|settings| (dcb(settings).pfc, settings.pause) = (Some(Pfc::default()), pause(true)));
        assert_eq!(alone, ["info pfc-off eth0"]);
        let by = |dcbx| found(|settings| dcb(settings).dcbx = Some(dcbx));
        // As ice and as mlx5 report it.
        assert_eq!(by(DcbxMode { lld_managed: true, ..DcbxMode::default() }), ["info dcb-by-firmware eth0"]);
        assert_eq!(by(DcbxMode { ieee: true, ..DcbxMode::default() }), ["info dcb-by-firmware eth0"]);
        assert!(by(DcbxMode { host: true, ..DcbxMode::default() }).is_empty());
    }

    #[test]
    fn a_port_has_its_highest_speed() {
        let modes = |speed| LinkModes {
            autonegotiation: true,
            speed: Some(speed),
            duplex: None,
            lanes: Some(4),
            supported: vec!["400000baseSR8/Full".into()],
            advertised: Vec::new(),
            peer: Vec::new(),
            highest_supported_speed: Some(400_000),
        };
        assert_eq!(found(|settings| settings.modes = Some(modes(200_000))), ["info port-below-speed eth0"]);
        assert!(found(|settings| settings.modes = Some(modes(400_000))).is_empty());
        let down = with(|facts| {
            let modes = Some(modes(200_000));
            facts.link_settings =
                vec![LinkSettings { link: "eth2".into(), modes, ..LinkSettings::default() }];
        });
        assert!(down.is_empty(), "{down:?}");
        // A faster port of an equal card shows that it is not the switch.
        let beside = |other| {
            with(|facts| {
                let port = |(link, speed): (&str, u32)| LinkSettings {
                    link: link.into(),
                    modes: Some(modes(speed)),
                    ..LinkSettings::default()
                };
                facts.link_settings = [("eth0", 200_000), ("eth1", other)].map(port).into();
            })
        };
        assert_eq!(beside(400_000), ["warning port-below-speed eth0"]);
        assert_eq!(beside(200_000), ["info port-below-speed eth0", "info port-below-speed eth1"]);
    }

    #[test]
    fn a_module_has_its_own_limit() {
        let module = |millicelsius| Module {
            power: ModulePower { policy: None, mode: None },
            eeprom: Some(ModuleEeprom {
                identifier: 0x1e,
                interface: None,
                vendor: None,
                temperature_millicelsius: Some(millicelsius),
                supply_microvolts: None,
                lanes: Vec::new(),
                thresholds: Some(ModuleThresholds {
                    temperature_millicelsius: Some(Thresholds {
                        high_alarm: 80_000,
                        low_alarm: 0,
                        high_warning: 75_000,
                        low_warning: 0,
                    }),
                    supply_microvolts: None,
                    rx_power_nanowatts: None,
                    tx_power_nanowatts: None,
                    tx_bias_microamperes: None,
                }),
            }),
        };
        assert_eq!(found(|settings| settings.module = Some(module(76_000))), ["warning module-hot eth0"]);
        assert!(found(|settings| settings.module = Some(module(75_000))).is_empty());
    }
}
