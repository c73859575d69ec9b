//! The physical state of ports: link modes, FEC, pause, module, slot.

use std::sync::Arc;

use ethtool_netlink::{FecCounter, FecMode, ModuleEeprom};
use exposition::{Exposition, LabelSet, SampleValue};

use super::{
    family_type::{counter, gauge},
    labels::DeviceLabels,
};
use crate::{DeviceReading, PcieState, PhysicalState};

/// Bytes per second of one Mb/s.
const BYTES_PER_MEGABIT: u64 = 1_000_000 / 8;

pub(super) fn write(families: &mut Exposition, devices: &[(&DeviceReading, &DeviceLabels)]) {
    for (reading, known) in devices {
        let mut slot: Option<&PcieState> = None;
        for (port, labels) in reading.ports.iter().zip(&known.ports) {
            let Some(state) = port.physical.as_ref().map(Arc::as_ref) else { continue };
            link(families, state, &labels.port);
            fec(families, state, &labels.port);
            if let Some(module) = state.module.as_ref().and_then(|module| module.eeprom.as_ref()) {
                module_values(families, module, &labels.port);
            }
            slot = slot.or(state.pcie.as_ref());
        }
        if let Some(slot) = slot {
            pcie(families, slot, &known.device);
        }
    }
}

/// Adds a sample if there is a value.
fn add(
    families: &mut Exposition,
    kind: Kind,
    (name, help): (&str, &'static str),
    labels: LabelSet,
    value: Option<impl Into<SampleValue>>,
) {
    let Some(value) = value else { return };
    match kind {
        Kind::Gauge => gauge(families, name, help).add(labels, value),
        Kind::Counter => counter(families, name, help).add(labels, value),
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}

fn link(families: &mut Exposition, state: &PhysicalState, port: &LabelSet) {
    let highest = state.modes.as_ref().and_then(|modes| modes.highest_supported_speed);
    let name =
        ("rdma_port_max_speed_bytes_per_second", "Highest speed of the link modes that the port supports.");
    add(families, Kind::Gauge, name, port.clone(), highest.map(|speed| u64::from(speed) * BYTES_PER_MEGABIT));
    let downs = state.state.as_ref().and_then(|state| state.down_events);
    let name = ("rdma_port_link_down_events_total", "How often the link went down.");
    add(families, Kind::Counter, name, port.clone(), downs.map(u64::from));
    if let Some(statistics) = &state.statistics {
        let name = ("rdma_port_symbol_errors_total", "Invalid symbols that the PHY has received.");
        add(families, Kind::Counter, name, port.clone(), statistics.symbol_errors);
        let name = ("rdma_port_fcs_errors_total", "Received frames with a wrong checksum.");
        add(families, Kind::Counter, name, port.clone(), statistics.fcs_errors);
    }
    let Some(pause) = &state.pause else { return };
    for (direction, is_enabled, frames) in [
        ("receive", pause.rx, pause.statistics.rx_frames),
        ("transmit", pause.tx, pause.statistics.tx_frames),
    ] {
        let labels = port.and("direction", direction);
        let name =
            ("rdma_port_pause_enabled", "1 if global pause frames are enabled; with PFC they should not be.");
        add(families, Kind::Gauge, name, labels.clone(), Some(is_enabled));
        let name = ("rdma_port_pause_frames_total", "Global pause frames, not those of PFC.");
        add(families, Kind::Counter, name, labels, frames);
    }
}

fn fec(families: &mut Exposition, state: &PhysicalState, port: &LabelSet) {
    let Some(fec) = &state.fec else { return };
    if let Some(mode) = fec.active {
        let name = ("rdma_port_fec_info", "The FEC mode of the link. Always 1.");
        add(families, Kind::Gauge, name, port.and("mode", mode_name(mode)), Some(true));
    }
    let total = |counter: &Option<FecCounter>| counter.as_ref().map(|counter| counter.total);
    let statistics = &fec.statistics;
    let name = ("rdma_port_fec_corrected_blocks_total", "Blocks whose errors FEC has corrected.");
    add(families, Kind::Counter, name, port.clone(), total(&statistics.corrected_blocks));
    let name = (
        "rdma_port_fec_uncorrectable_blocks_total",
        "Blocks with more errors than FEC can correct: frames are lost.",
    );
    add(families, Kind::Counter, name, port.clone(), total(&statistics.uncorrectable_blocks));
    let name = ("rdma_port_fec_corrected_bits_total", "Bits that FEC has corrected.");
    add(families, Kind::Counter, name, port.clone(), total(&statistics.corrected_bits));
}

fn mode_name(mode: FecMode) -> &'static str {
    match mode {
        FecMode::Off => "off",
        FecMode::Rs => "rs",
        FecMode::BaseR => "baser",
        FecMode::Llrs => "llrs",
        FecMode::Other(_) => "other",
    }
}

fn module_values(families: &mut Exposition, module: &ModuleEeprom, port: &LabelSet) {
    if let Some(vendor) = &module.vendor {
        let labels = port
            .builder()
            .with_some("form_factor", module.form_factor())
            .with("vendor", &vendor.name)
            .with("part_number", &vendor.part_number)
            .with("serial_number", &vendor.serial_number)
            .build();
        let name = ("rdma_module_info", "The plug-in module of a port. Always 1.");
        add(families, Kind::Gauge, name, labels, Some(true));
    }
    let celsius = |thousandths: i32| f64::from(thousandths) / 1e3;
    let name = ("rdma_module_temperature_celsius", "Temperature of the module.");
    add(families, Kind::Gauge, name, port.clone(), module.temperature_millicelsius.map(celsius));
    let limits = module.thresholds.and_then(|limits| limits.temperature_millicelsius);
    let name =
        ("rdma_module_temperature_limit_celsius", "Temperature above which the module raises an alarm.");
    add(families, Kind::Gauge, name, port.clone(), limits.map(|limits| celsius(limits.high_alarm)));
    let name = ("rdma_module_supply_volts", "Supply voltage of the module.");
    add(
        families,
        Kind::Gauge,
        name,
        port.clone(),
        module.supply_microvolts.map(|volts| f64::from(volts) / 1e6),
    );
    let watts = |nanowatts: u32| f64::from(nanowatts) / 1e9;
    let received = module.thresholds.and_then(|limits| limits.rx_power_nanowatts);
    let name = (
        "rdma_module_receive_power_limit_watts",
        "Received optical power below which the module raises an alarm.",
    );
    add(families, Kind::Gauge, name, port.clone(), received.map(|limits| watts(limits.low_alarm)));
    for lane in &module.lanes {
        let labels = port.and("lane", &lane.lane.to_string());
        let name = ("rdma_module_receive_power_watts", "Received optical power of a lane.");
        add(families, Kind::Gauge, name, labels.clone(), lane.rx_power_nanowatts.map(watts));
        let name = ("rdma_module_transmit_power_watts", "Transmitted optical power of a lane.");
        add(families, Kind::Gauge, name, labels.clone(), lane.tx_power_nanowatts.map(watts));
        let name = ("rdma_module_bias_amperes", "Bias current of the laser of a lane.");
        add(
            families,
            Kind::Gauge,
            name,
            labels,
            lane.tx_bias_microamperes.map(|current| f64::from(current) / 1e6),
        );
    }
}

fn pcie(families: &mut Exposition, slot: &PcieState, device: &LabelSet) {
    let name = ("rdma_device_pcie_transfers_per_second", "Speed of a lane of the PCIe link.");
    add(families, Kind::Gauge, name, device.clone(), slot.speed);
    let name =
        ("rdma_device_pcie_max_transfers_per_second", "Highest speed of a lane that the card supports.");
    add(families, Kind::Gauge, name, device.clone(), slot.max_speed);
    let name = ("rdma_device_pcie_lanes", "Lanes of the PCIe link.");
    add(families, Kind::Gauge, name, device.clone(), slot.lanes.map(u64::from));
    let name = ("rdma_device_pcie_max_lanes", "Lanes that the card has.");
    add(families, Kind::Gauge, name, device.clone(), slot.max_lanes.map(u64::from));
    for (kind, count) in &slot.errors {
        let name =
            ("rdma_device_pcie_errors_total", "Errors of the PCIe link that the card has reported (AER).");
        add(families, Kind::Counter, name, device.and("kind", kind), Some(*count));
    }
}

#[cfg(test)]
mod tests;
