//! Each expectation of the site file, met and not met.

use dcb::{DcbSettings, Pfc};
use link_settings::LinkSettings;
use site::SiteFile;

use super::super::testing::{healthy, with};
use super::*;
use crate::{
    Known,
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
        ["error link-no-carrier eth1"]
    );
    let other_node = "roles: [{name: spare, nodes: ['cpu-*'], match: {link: eth1}, cabled: false}]";
    assert_eq!(found(other_node, unplug), ["error link-no-carrier eth1"]);
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
    assert_eq!(found(spare, |_| {}), ["info site-port-cabled mlx5_1 port 1"]);
}

#[test]
fn a_port_that_has_to_have_a_cable_is_an_error_without_one() {
    let found = found(&rail("cabled: true"), |facts| {
        facts.functions.retain(|function| function.address != "0000:b0:00.1");
        facts.functions[1].vfs.clear();
        facts.functions[1].num_vfs = Known::Value(0);
        unplug(facts);
        facts.links[1].up = Known::Value(false);
    });
    assert_eq!(found, ["error link-down eth1"]);
}

#[test]
fn the_number_of_ports_is_compared() {
    assert!(found(&rail("ports: 2"), |_| {}).is_empty());
    assert_eq!(found(&rail("ports: 3"), |_| {}), ["error site-ports-missing role rail"]);
    assert_eq!(found(&rail("ports: 1"), |_| {}), ["warning site-ports-more role rail"]);
    // The second device is in the namespace of a pod.
    let of_vendor = "roles: [{name: rail, match: {vendor: 15b3, driver: 'mlx5*'}, ports: 2}]";
    let moved = found(of_vendor, |facts| {
        facts.devices.remove(1);
        facts.functions[1].rdma.clear();
    });
    assert!(!moved.contains(&"error site-ports-missing role rail".to_owned()), "{moved:?}");
    // The device is shared, and its link is in the namespace of a pod.
    let by_link = "roles: [{name: rail, match: {vendor: 15b3, link: 'eth*'}, ports: 2}]";
    assert!(found(by_link, |_| {}).is_empty());
    let shared = found(by_link, |facts| {
        facts.devices[1].ports[0].link = None;
        facts.functions[1].links.clear();
    });
    assert!(!shared.contains(&"error site-ports-missing role rail".to_owned()), "{shared:?}");
    let gone = found(of_vendor, |facts| {
        facts.devices.remove(1);
        facts.functions.retain(|function| !function.address.starts_with("0000:b0"));
    });
    assert!(gone.contains(&"error site-ports-missing role rail".to_owned()), "{gone:?}");
}

#[test]
fn what_a_port_has_is_compared_with_its_role() {
    for (expectation, finding) in [
        ("rate: 100", None),
        ("rate: 200", Some("error site-rate-lower mlx5_0 port 1")),
        ("mtu: 4200", None),
        ("mtu: 9000", Some("error site-mtu-differs eth0")),
        ("linkLayer: Ethernet", None),
        ("linkLayer: InfiniBand", Some("error site-link-layer-differs mlx5_0 port 1")),
        ("firmware: ['16.35.*']", None),
        ("firmware: ['28.*', '16.36.*']", Some("warning site-firmware-differs mlx5_0")),
        ("pcie: {width: 16, speed: 16}", None),
        ("pcie: {speed: 32}", Some("warning site-pcie-lower 0000:af:00.0")),
        ("pcie: {width: 32}", Some("warning site-pcie-lower 0000:af:00.0")),
    ] {
        let text = rail(expectation);
        let all = found(&text, |_| {});
        assert_eq!(all.first().map(String::as_str), finding, "{expectation}: {all:?}");
        assert_eq!(all.len(), if finding.is_some() { 2 } else { 0 }, "both rails: {all:?}");
    }
    // The rate of a port that is down is that of no cable, and both ports of a card have its firmware.
    let down = found(&rail("rate: 200"), unplug);
    assert_eq!(down, ["error link-no-carrier eth1", "error site-rate-lower mlx5_0 port 1"]);
    let two_ports = found(&rail("firmware: ['28.*']"), |facts| {
        let second = PortFacts { number: 2, ..facts.devices[0].ports[0].clone() };
        facts.devices[0].ports.push(second);
    });
    assert_eq!(
        two_ports.iter().filter(|finding| finding.contains("site-firmware")).count(),
        2,
        "{two_ports:?}"
    );
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
            "warning pcie-speed-reduced 0000:af:00.0",
            "warning pcie-width-reduced 0000:af:00.0",
            "warning pcie-below-port 0000:af:00.0"
        ]
    );
    assert!(found(&rail("pcie: {width: 8, speed: 8}"), slow).is_empty());
    let mixed = |facts: &mut NodeFacts| facts.devices[1].firmware = Known::Value("16.35.9999".into());
    assert_eq!(found("roles: []", mixed), ["warning firmware-mixed mlx5_0, mlx5_1"]);
    assert!(found(&rail("firmware: ['16.35.*']"), mixed).is_empty());
    let mtu = |facts: &mut NodeFacts| facts.links.iter_mut().for_each(|link| link.mtu = Known::Value(1500));
    assert_eq!(found("roles: []", mtu), ["info mtu-below-4096 eth0", "info mtu-below-4096 eth1"]);
    assert!(found(&rail("mtu: 1500"), mtu).is_empty());
    let classes = |facts: &mut NodeFacts| facts.devices[1].ports[0].traffic_class = Some(0);
    assert_eq!(found("roles: []", classes), ["warning lossless-differs eth0, eth1"]);
    let storage = "roles: [{name: rail, match: {link: eth0}}, {name: storage, match: {link: eth1}}]";
    assert!(found(storage, classes).is_empty());
    assert_eq!(found(&rail("cabled: true"), classes), ["warning lossless-differs eth0, eth1"]);
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
    assert_eq!(found("roles: []", modes), ["info port-below-speed eth0"]);
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
    assert_eq!(other, ["error site-dcb-differs eth0", "error site-dcb-differs eth1"]);
    assert_eq!(found("roles: []", dcb(Vec::new())), ["info pfc-off eth0", "info pfc-off eth1"]);
    assert!(found(&rail("dcb: {pfc: []}"), dcb(Vec::new())).is_empty(), "a fabric that is meant to be lossy");
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
    assert_eq!(only(text, &[16]), ["error site-gpus-missing GPUs"]);
    assert_eq!(only(text, &[16, 8]), ["warning site-pcie-lower 0000:01:00.0"]);
    assert_eq!(only("roles: []", &[16, 8]), ["warning pcie-width-reduced 0000:01:00.0"]);
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
    let over = found("ignore: [{finding: link-no-carrier, reason: spare, until: 2026-11-19}]", unplug);
    assert_eq!(over, ["error link-no-carrier eth1", "info site-ignore-over /site.yaml"]);
    let elsewhere = "ignore: [{finding: link-down, nodes: [cpu-1], reason: spare, until: 2026-11-19}]";
    assert!(found(elsewhere, |_| {}).is_empty());
}

#[test]
fn the_file_is_valid() {
    let broken = with(|facts| {
        (facts.site.file, facts.site.problem) = ("/site.yaml".into(), Some("roles[0]".into()));
    });
    assert_eq!(broken, ["error site-file-broken /site.yaml"]);
    let unknown = found("ignore: [{finding: link-dwon, reason: spare}]", |_| {});
    assert_eq!(unknown, ["warning site-ignore-unknown /site.yaml"]);
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
