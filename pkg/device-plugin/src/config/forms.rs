//! Every form of the Go device plugins' configurations, with the devices that it selects: `tests/device-plugins.md`.

use std::{collections::BTreeSet, fs, path::Path};

use sysfs::PciId;

use super::*;
use crate::{
    Allocation, DeviceUse, LinkType, NodeDevice, NodeDevices, PhysicalFunction, ResourceDevices,
    device::fixture::vf,
};

/// A row of the page.
struct Form {
    section: String,
    text: String,
    go: String,
    source: String,
    silkrail: String,
    reason: String,
}

/// Where a form of a section is in a file.
const SECTIONS: [(&str, &str); 6] = [
    ("Selectors of netDevice", r#"{"resourceList": [{"resourceName": "a", "selectors": {FORM}}]}"#),
    (
        "Selectors of auxNetDevice",
        r#"{"resourceList": [{"resourceName": "a", "deviceType": "auxNetDevice", "selectors": {FORM}}]}"#,
    ),
    ("Items of resourceList", r#"{"resourceList": [{"resourceName": "a", FORM}]}"#),
    (
        "Selectors of configList",
        r#"{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {FORM}}]}"#,
    ),
    ("Items of configList", r#"{"configList": [{"resourceName": "a", FORM}]}"#),
    ("Files", "FORM"),
];

/// The keys of the structures in pkg/types/types.go of both plugins. Ours are those that an unknown key's finding lists.
const GO_KEYS: [(&str, &str); 6] = [
    (
        "Selectors of netDevice",
        "vendors devices drivers pciAddresses pfNames rootDevices linkTypes isRdma acpiIndexes needVhostNet ddpProfiles vdpaType pKeys",
    ),
    (
        "Selectors of auxNetDevice",
        "vendors devices drivers pfNames rootDevices linkTypes isRdma acpiIndexes needVhostNet auxTypes",
    ),
    (
        "Items of resourceList",
        "resourcePrefix resourceName deviceType excludeTopology selectors additionalInfo SelectorObjs",
    ),
    ("Selectors of configList", "vendors deviceIDs drivers ifNames linkTypes"),
    ("Items of configList", "resourceName resourcePrefix rdmaHcaMax devices selectors"),
    ("Files", "resourceList periodicUpdateInterval configList"),
];

fn page() -> Vec<Form> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/device-plugins.md");
    let (mut section, mut forms) = (String::new(), Vec::new());
    for line in fs::read_to_string(path).unwrap().lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut section);
        }
        let Some(row) = line.strip_prefix("| `").and_then(|row| row.strip_suffix(" |")) else { continue };
        let (text, cells) = row.split_once("` | ").unwrap();
        let [go, source, silkrail, reason] = cells.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("five cells: {line}")
        };
        let [text, go, source, silkrail, reason] = [text, go, source, silkrail, reason].map(str::to_owned);
        forms.push(Form { section: section.clone(), text, go, source, silkrail, reason });
    }
    forms
}

fn file(section: &str, form: &str) -> String {
    let (_, file) = SECTIONS.iter().find(|(title, _)| *title == section).unwrap();
    let mut file = file.replace("FORM", form);
    if section.starts_with("Items") && form.contains("\"resourceName\"") {
        file = file.replace("\"resourceName\": \"a\", ", "");
    }
    file
}

/// The devices of the page, with their names there.
fn node() -> Vec<(&'static str, NodeDevice)> {
    let names = ["vf0", "vf1", "vf2", "vf3", "vf4"];
    let mut devices: Vec<_> = (0..).zip(names).map(|(index, name)| (name, vf("p0", index))).collect();
    let id = |vendor, device| Some(PciId { vendor, device });
    let pf = |pci: &str, link: &str| NodeDevice {
        id: pci.into(),
        function: Some(pci.parse().unwrap()),
        pci_id: id(0x15b3, 0x101d),
        links: vec![link.parse().unwrap()],
        pf: None,
        index: None,
        rdma: vec![format!("mlx5_{link}")],
        ..vf("p0", 0)
    };
    let none = |device| NodeDevice { rdma: Vec::new(), char_devices: Vec::new(), ..device };
    devices.push((
        "vf5",
        none(NodeDevice { driver: Some("vfio-pci".into()), links: Vec::new(), ..vf("p0", 5) }),
    ));
    devices.insert(0, ("pf0", NodeDevice { num_vfs: 6, ..pf("0000:af:00.0", "p0") }));
    devices.push((
        "sf",
        NodeDevice {
            id: "mlx5_core.sf.4".into(),
            function: Some("mlx5_core.sf.4".parse().unwrap()),
            driver: Some("mlx5_core.sf".into()),
            card_driver: Some("mlx5_core".into()),
            pci_id: id(0x15b3, 0x101d),
            auxiliary_type: Some("sf".into()),
            rdma: vec!["mlx5_8".into()],
            ..vf("p0", 4)
        },
    ));
    devices.push(("pf1", pf("0000:b0:00.0", "p1")));
    let ib_pf = PhysicalFunction { pci: "0000:c0:00.0".parse().unwrap(), link: "ib0".parse().ok() };
    devices.push((
        "ib",
        NodeDevice {
            id: "0000:c0:00.2".into(),
            function: Some("0000:c0:00.2".parse().unwrap()),
            links: vec!["ib0v0".parse().unwrap()],
            link_type: Some(LinkType::InfiniBand),
            pf: Some(ib_pf),
            pkey: "0x8001".parse().ok(),
            acpi_index: Some(101),
            rdma: vec!["mlx5_9".into()],
            ..vf("ib0", 0)
        },
    ));
    let mgmt = NodeDevice {
        driver: Some("e1000e".into()),
        pci_id: id(0x8086, 0x10d3),
        ..pf("0000:d0:00.0", "mgmt0")
    };
    devices.push(("mgmt", none(NodeDevice { has_default_route: true, ..mgmt })));
    devices
}

/// What the page says about the result of a file on this node.
fn result(section: &str, text: &str) -> String {
    let config = Config::with(text, ReadOptions { node: "node-a", ..ReadOptions::default() }).unwrap();
    let node = node();
    let devices = node.iter().map(|(_, device)| device.clone()).collect();
    let devices = NodeDevices { devices, ..NodeDevices::default() };
    let assigned = ResourceDevices::assign(
        &config.resources,
        &devices,
        &ResourceDevices::default(),
        &DeviceUse::default(),
    );
    let name = |device: &NodeDevice| node.iter().find(|(_, it)| it.id == device.id).unwrap().0;
    let mut parts = Vec::new();
    for spec in &config.resources {
        let found = &assigned.devices[&spec.name];
        let names: Vec<_> = found.iter().map(name).collect();
        parts.push(if names.is_empty() { "none".into() } else { names.join(" ") });
        parts.extend(details(section, spec, found));
    }
    if config.resources.is_empty() {
        parts.push(if config.findings.is_empty() { "none".into() } else { "refused".into() });
    }
    parts.extend((!config.findings.is_empty()).then(|| "warning".into()));
    parts.join("; ")
}

fn details(section: &str, spec: &ResourceSpec, devices: &[NodeDevice]) -> Vec<String> {
    let mut details = Vec::new();
    let mut add = |is: bool, text: String| details.extend(is.then_some(text));
    match spec.mode {
        ResourceMode::Exclusive(_) => {
            add(devices.iter().any(|device| spec.requires_rdma(device)), "rdma".into());
            add(devices.iter().any(|device| spec.requires_vhost_net(device)), "vhost".into());
            add(!spec.has_topology, "no NUMA".into());
        }
        ResourceMode::Shared { slots } => add(!section.starts_with("Selectors"), format!("slots {slots}")),
    }
    let name = spec.name.to_string();
    add(section == "Files" || !["intel.com/a", "rdma/a"].contains(&name.as_str()), name);
    if let [device] = devices
        && !spec.additional_info.is_empty()
    {
        let allocation = Allocation { spec, has_connection_manager: true, has_management: false };
        let answer = allocation.answer(std::slice::from_ref(&device.id), devices).unwrap();
        let info: Value = serde_json::from_str(&answer.envs["PCIDEVICE_INTEL_COM_A_INFO"]).unwrap();
        details.push(info[&device.id]["extra"].to_string());
    }
    details
}

#[test]
fn each_form_has_the_result_of_the_page_and_a_difference_has_a_reason() {
    let forms = page();
    for form in &forms {
        let file = file(&form.section, &form.text);
        assert_eq!(result(&form.section, &file), form.silkrail, "{file}");
        assert!(form.source.contains(".go: ") || form.source.ends_with(".yaml"), "{}", form.source);
        let is_same = form.go == form.silkrail.trim_end_matches("; warning");
        let has_reason = form.reason != "–";
        assert!(is_same || has_reason, "{} needs a reason", form.text);
    }
    assert_eq!(forms.iter().map(|form| &form.section).collect::<BTreeSet<_>>().len(), SECTIONS.len());
}

#[test]
fn each_key_has_a_form() {
    for (section, keys) in GO_KEYS {
        let unknown =
            Config::parse(&file(section, if section == "Files" { r#"{"x": 1}"# } else { r#""x": 1"# }));
        let findings: Vec<_> = unknown.unwrap().findings.into_iter().map(|finding| finding.what).collect();
        let ours = findings.iter().find_map(|what| what.strip_prefix("unknown key, expected one of "));
        let keys = keys.split(' ').chain(ours.unwrap().split(", "));
        let forms: String =
            page().into_iter().filter(|form| form.section == section).map(|form| form.text).collect();
        for key in keys {
            assert!(forms.contains(&format!("\"{key}\":")), "{section}: {key} has no row");
        }
    }
}
