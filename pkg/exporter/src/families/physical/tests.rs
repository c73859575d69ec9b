//! Each value in its unit.

use std::time::UNIX_EPOCH;

use ethtool_netlink::{
    Fec, FecStatistics, LinkModes, LinkState, LinkStatistics, Module, ModuleLane, ModulePower,
    ModuleThresholds, ModuleVendor, Pause, PauseStatistics, Thresholds,
};

use super::*;
use crate::{
    DeviceSnapshot, NodeSnapshot,
    counter_layout::tests::port,
    families::tests::{device, lines_with},
};

fn thresholds<T>(high_alarm: T, low_alarm: T, high_warning: T, low_warning: T) -> Option<Thresholds<T>> {
    Some(Thresholds { high_alarm, low_alarm, high_warning, low_warning })
}

fn module() -> ModuleEeprom {
    let lane = |lane, rx| ModuleLane {
        lane,
        rx_power_nanowatts: rx,
        tx_power_nanowatts: Some(2_000_000),
        tx_bias_microamperes: Some(7_500),
    };
    ModuleEeprom {
        identifier: 0x11,
        interface: None,
        vendor: Some(ModuleVendor {
            name: "ACME".into(),
            part_number: "P-1".into(),
            serial_number: "S-2".into(),
        }),
        temperature_millicelsius: Some(45_500),
        supply_microvolts: Some(3_300_000),
        lanes: vec![lane(1, Some(1_000_000)), lane(2, None)],
        thresholds: Some(ModuleThresholds {
            temperature_millicelsius: thresholds(75_000, -5_000, 70_000, 0),
            supply_microvolts: None,
            rx_power_nanowatts: thresholds(4_000_000, 50_000, 3_000_000, 60_000),
            tx_power_nanowatts: thresholds(1, 2, 3, 4),
            tx_bias_microamperes: None,
        }),
    }
}

fn state() -> PhysicalState {
    let total = |total| Some(FecCounter { total, lanes: vec![1, 2] });
    PhysicalState {
        modes: Some(LinkModes {
            autonegotiation: false,
            speed: Some(100_000),
            duplex: None,
            lanes: None,
            supported: Vec::new(),
            advertised: Vec::new(),
            peer: Vec::new(),
            highest_supported_speed: Some(400_000),
        }),
        state: Some(LinkState { up: None, sqi: None, sqi_max: None, extended: None, down_events: Some(3) }),
        fec: Some(Fec {
            active: Some(FecMode::BaseR),
            auto: false,
            modes: vec![FecMode::Rs],
            statistics: FecStatistics {
                corrected_blocks: total(11),
                uncorrectable_blocks: total(12),
                corrected_bits: total(13),
                histogram: Vec::new(),
            },
        }),
        pause: Some(Pause {
            autonegotiation: false,
            rx: true,
            tx: false,
            statistics: PauseStatistics { tx_frames: Some(21), rx_frames: Some(22) },
        }),
        statistics: Some(LinkStatistics {
            symbol_errors: Some(31),
            fcs_errors: Some(32),
            ..LinkStatistics::default()
        }),
        module: Some(Module { power: ModulePower::default(), eeprom: Some(module()) }),
        module_unreadable: None,
        pcie: Some(PcieState {
            speed: Some(16e9),
            max_speed: Some(32e9),
            lanes: Some(8),
            max_lanes: Some(16),
            errors: vec![("correctable", 41), ("fatal", 42)],
        }),
    }
}

/// Returns the lines of a device with these states of its ports.
fn lines(states: [Option<PhysicalState>; 2], beginning: &str) -> Vec<String> {
    let mut reading = device(vec![port(&[], &[], &[]), port(&[], &[], &[])]);
    for (port, state) in reading.ports.iter_mut().zip(states) {
        port.physical = state.map(Arc::new);
    }
    let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
    report.devices.push(DeviceSnapshot::new(reading, None));
    let ports = [r#"device="d0",port="1""#, r#"device="d0",port="2""#];
    let short = |line: String| line.replace(ports[0], "1").replace(ports[1], "2");
    lines_with(&report, beginning).into_iter().map(short).collect()
}

#[test]
fn the_values_of_a_module_are_in_base_units() {
    let expected = [
        r#"rdma_module_bias_amperes{2,lane="1"} 0.0075"#,
        r#"rdma_module_bias_amperes{2,lane="2"} 0.0075"#,
        r#"rdma_module_info{2,form_factor="QSFP28",vendor="ACME",part_number="P-1",serial_number="S-2"} 1"#,
        r#"rdma_module_receive_power_limit_watts{2} 0.00005"#,
        r#"rdma_module_receive_power_watts{2,lane="1"} 0.001"#,
        r#"rdma_module_supply_volts{2} 3.3"#,
        r#"rdma_module_temperature_celsius{2} 45.5"#,
        r#"rdma_module_temperature_limit_celsius{2} 75"#,
        r#"rdma_module_transmit_power_watts{2,lane="1"} 0.002"#,
        r#"rdma_module_transmit_power_watts{2,lane="2"} 0.002"#,
    ];
    assert_eq!(lines([None, Some(state())], "rdma_module"), expected);
}

#[test]
fn the_values_of_a_link_are_those_of_its_port() {
    let physical = |line: &String| {
        ["max_speed", "link_down", "symbol", "fcs", "pause", "fec"]
            .iter()
            .any(|name| line.starts_with(&format!("rdma_port_{name}")))
    };
    let lines: Vec<_> = lines([None, Some(state())], "rdma_port_").into_iter().filter(physical).collect();
    let expected = [
        r#"rdma_port_fcs_errors_total{2} 32"#,
        r#"rdma_port_fec_corrected_bits_total{2} 13"#,
        r#"rdma_port_fec_corrected_blocks_total{2} 11"#,
        r#"rdma_port_fec_info{2,mode="baser"} 1"#,
        r#"rdma_port_fec_uncorrectable_blocks_total{2} 12"#,
        r#"rdma_port_link_down_events_total{2} 3"#,
        r#"rdma_port_max_speed_bytes_per_second{2} 50000000000"#,
        r#"rdma_port_pause_enabled{2,direction="receive"} 1"#,
        r#"rdma_port_pause_enabled{2,direction="transmit"} 0"#,
        r#"rdma_port_pause_frames_total{2,direction="receive"} 22"#,
        r#"rdma_port_pause_frames_total{2,direction="transmit"} 21"#,
        r#"rdma_port_symbol_errors_total{2} 31"#,
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_slot_of_a_card_with_several_ports_has_its_series_once() {
    let other = PhysicalState { pcie: Some(PcieState::default()), ..state() };
    let expected = [
        r#"rdma_device_pcie_errors_total{device="d0",kind="correctable"} 41"#,
        r#"rdma_device_pcie_errors_total{device="d0",kind="fatal"} 42"#,
        r#"rdma_device_pcie_lanes{device="d0"} 8"#,
        r#"rdma_device_pcie_max_lanes{device="d0"} 16"#,
        r#"rdma_device_pcie_max_transfers_per_second{device="d0"} 32000000000"#,
        r#"rdma_device_pcie_transfers_per_second{device="d0"} 16000000000"#,
    ];
    assert_eq!(lines([Some(state()), Some(other)], "rdma_device_pcie"), expected);
    let without = PhysicalState { pcie: None, ..state() };
    assert_eq!(lines([Some(without), Some(state())], "rdma_device_pcie"), expected);
    assert_eq!(lines([None, None], "rdma_device_pcie"), [""; 0]);
}
