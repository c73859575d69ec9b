//! What is compared of a node, from the JSON of its daemon.

use std::collections::BTreeMap;

use identifiers::is_unprintable;
use serde::{Deserialize, Serialize};

use crate::property::{Property, counted};

/// What is compared of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// The name of the node.
    pub node: String,
    /// The properties that are known.
    pub properties: BTreeMap<Property, String>,
    /// The findings of the doctor; `None` if it has not examined the node within the last hour.
    pub findings: Option<Vec<NodeFinding>>,
}

/// A finding of the doctor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeFinding {
    /// The kind.
    pub id: String,
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// The object.
    pub object: String,
}

/// A reply is not that of silkraild.
#[derive(Debug, thiserror::Error)]
#[error("the reply is not that of silkraild: {0}")]
pub struct InvalidNodeReport(#[from] serde_json::Error);

/// The reply. Everything else in it is skipped.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    node: String,
    /// The time of the reply, in seconds of the node's clock.
    time: Option<f64>,
    version: Option<String>,
    mode: Option<String>,
    devices: Vec<Device>,
    doctor: Option<Doctor>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    driver: Option<String>,
    firmware: Option<String>,
    board: Option<String>,
    pci_address: Option<String>,
    #[serde(default)]
    is_vf: bool,
    #[serde(default)]
    ports: Vec<Port>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    state: String,
    link_layer: Option<String>,
    /// In bits per second.
    speed: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Doctor {
    /// The time of the examination, of the same clock.
    #[serde(default)]
    time: f64,
    #[serde(default)]
    findings: Vec<NodeFinding>,
    #[serde(default)]
    inventory: Inventory,
}

#[derive(Debug, Default, Deserialize)]
struct Inventory {
    kernel: Option<String>,
    #[serde(default)]
    cards: Vec<Card>,
    #[serde(default)]
    gpus: Vec<Gpu>,
}

#[derive(Debug, Deserialize)]
struct Card {
    device: String,
    pcie: Option<String>,
    mtu: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct Gpu {
    model: String,
    lanes: Option<u32>,
}

/// More findings of a node are not compared.
const MAX_FINDINGS: usize = 256;
/// Findings of an older record may have ended. The condition of a node has the same limit.
const MAX_AGE_SECONDS: f64 = 3600.0;
/// Longer texts are cut.
const MAX_TEXT_CHARS: usize = 200;

impl NodeReport {
    /// Parses the JSON of a daemon.
    ///
    /// # Errors
    /// [`InvalidNodeReport`].
    pub fn parse(json: &[u8]) -> Result<Self, InvalidNodeReport> {
        let Reply { node, time, version, mode, devices, doctor } = serde_json::from_slice(json)?;
        let mut report = Self { node: clean(&node), ..Self::default() };
        let (vfs, others): (Vec<_>, Vec<_>) = devices.iter().partition(|device| device.is_vf);
        // A software device is no part that a node can lack.
        let pfs: Vec<&Device> = others.into_iter().filter(|device| device.pci_address.is_some()).collect();
        report.set("", "silkraild", version);
        report.set("", "RDMA mode", mode);
        report.set("", "devices", Some(pfs.len().to_string()));
        report.set("", "VFs", Some(vfs.len().to_string()));
        let inventory = doctor.as_ref().map(|doctor| &doctor.inventory);
        report.set("", "kernel", inventory.and_then(|inventory| inventory.kernel.clone()));
        report.add_cards(&pfs, inventory);
        if let Some(inventory) = inventory {
            report.set("", "GPUs", Some(inventory.gpus.len().to_string()));
            let lanes =
                inventory.gpus.iter().filter_map(|gpu| Some((gpu.model.clone(), format!("x{}", gpu.lanes?))));
            report.set_each("PCIe", lanes);
        }
        let is_recent = |doctor: &Doctor| time.is_none_or(|time| time - doctor.time <= MAX_AGE_SECONDS);
        report.findings = doctor.filter(is_recent).map(|doctor| {
            let findings = doctor.findings.into_iter().take(MAX_FINDINGS).map(|finding| NodeFinding {
                id: clean(&finding.id),
                severity: clean(&finding.severity),
                object: clean(&finding.object),
            });
            findings.collect()
        });
        Ok(report)
    }

    /// Sets the properties of the cards of each model.
    fn add_cards(&mut self, pfs: &[&Device], inventory: Option<&Inventory>) {
        let model =
            |device: &Device| device.board.clone().or_else(|| device.driver.clone()).unwrap_or_default();
        let each = |value: fn(&Device) -> Option<String>| -> Vec<(String, String)> {
            pfs.iter().filter_map(|device| Some((model(device), value(device)?))).collect()
        };
        let of_ports = |value: fn(&Port) -> Option<String>| -> Vec<(String, String)> {
            let ports = pfs.iter().flat_map(|device| device.ports.iter().map(|port| (model(device), port)));
            ports.filter_map(|(model, port)| Some((model, value(port)?))).collect()
        };
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        pfs.iter().for_each(|device| *numbers.entry(model(device)).or_default() += 1);
        for (model, number) in numbers {
            self.set(&model, "number", Some(number.to_string()));
        }
        self.set_each("driver", each(|device| device.driver.clone()));
        self.set_each("firmware", each(|device| device.firmware.clone()));
        self.set_each("port state", of_ports(|port| Some(port.state.clone())));
        self.set_each("link layer", of_ports(|port| port.link_layer.clone()));
        self.set_each("port speed", of_ports(|port| Some(format!("{} Gb/s", port.speed? / 1_000_000_000))));
        let Some(inventory) = inventory else { return };
        let of_cards = |value: fn(&Card) -> Option<String>| -> Vec<(String, String)> {
            let cards = inventory.cards.iter().filter_map(|card| {
                let device = pfs.iter().find(|device| device.name == card.device)?;
                Some((model(device), value(card)?))
            });
            cards.collect()
        };
        self.set_each("PCIe", of_cards(|card| card.pcie.clone()));
        self.set_each("MTU", of_cards(|card| card.mtu.map(|mtu| mtu.to_string())));
    }

    fn set(&mut self, of: &str, name: &'static str, value: Option<String>) {
        if let Some(value) = value {
            self.properties.insert(Property { of: clean(of), name }, clean(&value));
        }
    }

    /// Sets a property of the parts of each model.
    fn set_each(&mut self, name: &'static str, values: impl IntoIterator<Item = (String, String)>) {
        let mut by_model: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (model, value) in values {
            by_model.entry(model).or_default().push(clean(&value));
        }
        for (model, values) in by_model {
            self.set(&model, name, counted(values));
        }
    }
}

/// Returns a text of another host as it may be written to a terminal.
fn clean(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).map(|c| if is_unprintable(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_properties_of_a_node_are_those_of_its_parts() {
        let json = r#"{"node": "gpu-01", "version": "0.1.0", "time": 1.5, "hasRdma": true, "mode": "shared", "collectors": [],
            "devices": [
                {"name": "mlx5_0", "index": 0, "driver": "mlx5_core", "firmware": "28.43.1", "board": "MT_1", "isVf": false,
                 "pciAddress": "0000:af:00.0", "ports": [{"number": 1, "state": "active", "linkLayer": "Ethernet", "speed": 400000000000}]},
                {"name": "mlx5_1", "index": 1, "driver": "mlx5_core", "firmware": "28.43.1", "board": "MT_1", "isVf": false,
                 "pciAddress": "0000:b0:00.0", "ports": [{"number": 1, "state": "down", "linkLayer": "Ethernet", "speed": 200000000000}]},
                {"name": "mlx5_2", "driver": "mlx5_core", "board": "MT_1", "isVf": true, "pciAddress": "0000:af:00.1", "ports": []},
                {"name": "rxe0", "driver": "rxe", "isVf": false, "ports": [{"state": "active"}]}],
            "doctor": {"time": 1, "findings": [{"id": "link-down", "severity": "error", "object": "eth0", "summary": "s", "since": 1}],
                "inventory": {"kernel": "6.12.0", "cards": [{"device": "mlx5_0", "pcie": "32 GT/s x16", "mtu": 9000}],
                    "gpus": [{"model": "0x10de:0x2330", "lanes": 16}, {"model": "0x10de:0x2330", "lanes": 8}]}},
            "pods": []}"#;
        let report = NodeReport::parse(json.as_bytes()).unwrap();
        let texts: Vec<_> =
            report.properties.iter().map(|(property, value)| format!("{property}: {value}")).collect();
        let expected = [
            "GPUs: 2",
            "RDMA mode: shared",
            "VFs: 1",
            "devices: 2",
            "kernel: 6.12.0",
            "silkraild: 0.1.0",
            "PCIe of 0x10de:0x2330: 1 × x16, 1 × x8",
            "MTU of MT_1: 9000",
            "PCIe of MT_1: 32 GT/s x16",
            "driver of MT_1: mlx5_core",
            "firmware of MT_1: 28.43.1",
            "link layer of MT_1: Ethernet",
            "number of MT_1: 2",
            "port speed of MT_1: 1 × 200 Gb/s, 1 × 400 Gb/s",
            "port state of MT_1: 1 × active, 1 × down",
        ];
        assert_eq!(texts, expected);
        assert_eq!(report.findings.unwrap()[0].id, "link-down");
    }

    #[test]
    fn parts_are_those_of_their_own_model_and_a_card_without_a_board_has_the_name_of_its_driver() {
        let json = r#"{"node": "gpu-01", "devices": [
                {"name": "mlx5_0", "driver": "mlx5_core", "board": "MT_1", "pciAddress": "0000:af:00.0",
                 "ports": [{"state": "active", "speed": 400000000000}]},
                {"name": "bnxt_re0", "driver": "bnxt_re", "pciAddress": "0000:b0:00.0",
                 "ports": [{"state": "active", "speed": 100000000000}, {"state": "down"}]}],
            "doctor": {"inventory": {"cards": [{"device": "gone0", "mtu": 576}, {"device": "bnxt_re0", "mtu": 1500},
                {"device": "mlx5_0", "mtu": 9000}], "gpus": [{"model": "a"}]}}}"#;
        let report = NodeReport::parse(json.as_bytes()).unwrap();
        let of = |of: &str, name: &'static str| {
            report.properties.get(&Property { of: of.into(), name }).map(String::as_str)
        };
        assert_eq!((of("MT_1", "MTU"), of("bnxt_re", "MTU")), (Some("9000"), Some("1500")));
        assert_eq!(of("bnxt_re", "port state"), Some("1 × active, 1 × down"));
        assert_eq!(of("bnxt_re", "port speed"), Some("100 Gb/s"));
        assert_eq!(
            (of("bnxt_re", "number"), of("", "devices"), of("a", "PCIe")),
            (Some("1"), Some("2"), None)
        );
        assert_eq!(report.findings, Some(Vec::new()), "a daemon that does not tell its time");
    }

    #[test]
    fn a_record_that_is_older_than_an_hour_is_no_examination() {
        for (time, is_examined) in [(4600.5, true), (4601.5, false)] {
            let json = format!(
                r#"{{"node": "a", "time": {time}, "devices": [],
                "doctor": {{"time": 1001, "findings": [], "inventory": {{"kernel": "6.12.0"}}}}}}"#
            );
            let report = NodeReport::parse(json.as_bytes()).unwrap();
            assert_eq!(report.findings.is_some(), is_examined);
            assert!(report.properties.values().any(|value| value == "6.12.0"));
        }
    }

    #[test]
    fn a_node_without_a_doctor_has_fewer_properties() {
        let report = NodeReport::parse(br#"{"node": "a\u001b[31m", "devices": []}"#).unwrap();
        assert_eq!((report.node.as_str(), report.findings), ("a\u{fffd}[31m", None));
        assert_eq!(report.properties.len(), 2);
        assert!(NodeReport::parse(b"{}").is_err() && NodeReport::parse(b"<html>").is_err());
    }
}
