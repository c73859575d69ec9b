//! Traffic and errors of simulated functions: counters that grow.

use silkrail_tests::machine::{LabMachine, SimulatedSetting};

use super::table;

/// Standard counters and their increments: words of four bytes, and packets.
const PORT: [(&str, u64); 4] = [
    ("port_rcv_data", 5_000_000),
    ("port_xmit_data", 4_000_000),
    ("port_rcv_packets", 20_000),
    ("port_xmit_packets", 16_000),
];

/// Statistics of the link of a PF and their increments: frames, packets and microseconds.
const PHYSICAL: [(&str, u64); 7] = [
    ("rx_prio3_pause", 50),
    ("tx_prio3_pause", 40),
    ("rx_prio3_pause_duration", 30_000),
    ("tx_prio3_pause_duration", 20_000),
    ("rx_prio3_discards", 7),
    ("tx_prio3_discards", 5),
    ("tx_pause_storm_error_events", 1),
];

/// Statistics of a PF that are percentages of time.
const STALLS: [(&str, u64); 2] = [("outbound_pci_stalled_rd", 12), ("outbound_pci_stalled_wr", 9)];

/// Functions under load, for as long as this value lives.
pub(super) struct Load {
    growing: Vec<(SimulatedSetting, u64)>,
    steps: u64,
    constant: Vec<SimulatedSetting>,
}

impl Load {
    /// Returns a load without functions.
    pub(super) fn new() -> Self {
        Self { growing: Vec::new(), steps: 0, constant: Vec::new() }
    }

    /// Adds a function with `times` the usual traffic, and errors of every kind.
    pub(super) fn on(&mut self, machine: &LabMachine, pci: &str, times: u64) {
        let port = PORT.map(|(name, step)| (format!("port_counters/{name}"), step * times));
        let link = table::TRAFFIC.map(|name| (format!("ethtool/{name}"), 1_000 * times));
        self.grow(machine, pci, port.into_iter().chain(link));
        self.constant.push(machine.simulate(pci, "grow", "Y"));
    }

    /// Adds statistics that only a PF has: flow control, PCIe stalls, speed and traffic class.
    pub(super) fn on_card(&mut self, machine: &LabMachine, pci: &str) {
        self.grow(machine, pci, PHYSICAL.map(|(name, step)| (format!("ethtool/{name}"), step)));
        let stalls = STALLS.map(|(name, percent)| (format!("ethtool/{name}"), percent));
        let constant =
            stalls.into_iter().chain([("speed_mbps".to_owned(), 400_000), ("traffic_class".to_owned(), 106)]);
        self.constant.extend(constant.map(|(name, value)| machine.simulate(pci, &name, &value.to_string())));
    }

    fn grow(&mut self, machine: &LabMachine, pci: &str, settings: impl IntoIterator<Item = (String, u64)>) {
        self.growing
            .extend(settings.into_iter().map(|(name, step)| (machine.simulate(pci, &name, "0"), step)));
    }

    /// Increments all counters.
    pub(super) fn step(&mut self) {
        self.steps += 1;
        for (setting, step) in &self.growing {
            setting.set(&(step * self.steps).to_string());
        }
    }
}
