//! Modules with SFF-8472: SFP, SFP+ and SFP28. They have one lane.

use crate::{
    ManagementInterface, ModuleEeprom, ModuleLane, ModuleThresholds, ModuleVendor, Thresholds,
    module_eeprom::{microamperes, microvolts, millicelsius, nanowatts},
    module_memory::{HalfPage, HalfPageAddress, ModuleMemory},
};

/// I2C address A0h: identity.
mod identity {
    pub(super) const IDENTIFIER: u8 = 0;
    pub(super) const VENDOR_NAME: u8 = 20;
    pub(super) const PART_NUMBER: u8 = 40;
    pub(super) const SERIAL_NUMBER: u8 = 68;
    pub(super) const TEXT: u8 = 16;
    pub(super) const MONITORING: u8 = 92;
    pub(super) const IMPLEMENTED: u8 = 1 << 6;
    pub(super) const EXTERNALLY_CALIBRATED: u8 = 1 << 4;
}

/// I2C address A2h: diagnostics.
mod diagnostics {
    pub(super) const TEMPERATURE_THRESHOLDS: u8 = 0;
    pub(super) const SUPPLY_THRESHOLDS: u8 = 8;
    pub(super) const TX_BIAS_THRESHOLDS: u8 = 16;
    pub(super) const TX_POWER_THRESHOLDS: u8 = 24;
    pub(super) const RX_POWER_THRESHOLDS: u8 = 32;
    pub(super) const TEMPERATURE: u8 = 96;
    pub(super) const SUPPLY: u8 = 98;
    pub(super) const TX_BIAS: u8 = 100;
    pub(super) const TX_POWER: u8 = 102;
    pub(super) const RX_POWER: u8 = 104;
}

/// Reads a module.
pub(crate) fn read<M: ModuleMemory>(lower: &HalfPage, memory: &mut M) -> Result<ModuleEeprom, M::Error> {
    let page = if has_calibrated_diagnostics(lower) {
        memory.read_optional(HalfPageAddress::DIAGNOSTICS)?
    } else {
        None
    };
    let word = |at| page.as_ref().map(|page| page.word(at));
    Ok(ModuleEeprom {
        identifier: lower.byte(identity::IDENTIFIER),
        interface: Some(ManagementInterface::Sff8472),
        vendor: Some(vendor(lower)),
        temperature_millicelsius: word(diagnostics::TEMPERATURE).map(millicelsius),
        supply_microvolts: word(diagnostics::SUPPLY).map(microvolts),
        lanes: page.as_ref().map(lane).into_iter().collect(),
        thresholds: page.as_ref().and_then(thresholds),
    })
}

/// Whether the module has diagnostics in units. The values of an externally calibrated module are raw: they need the
/// constants of the module, and without them would be wrong by an unknown factor.
fn has_calibrated_diagnostics(lower: &HalfPage) -> bool {
    let monitoring = lower.byte(identity::MONITORING);
    monitoring & identity::IMPLEMENTED != 0 && monitoring & identity::EXTERNALLY_CALIBRATED == 0
}

fn vendor(lower: &HalfPage) -> ModuleVendor {
    ModuleVendor {
        name: lower.text(identity::VENDOR_NAME, identity::TEXT),
        part_number: lower.text(identity::PART_NUMBER, identity::TEXT),
        serial_number: lower.text(identity::SERIAL_NUMBER, identity::TEXT),
    }
}

fn lane(page: &HalfPage) -> ModuleLane {
    ModuleLane {
        lane: 1,
        rx_power_nanowatts: Some(nanowatts(page.word(diagnostics::RX_POWER))),
        tx_power_nanowatts: Some(nanowatts(page.word(diagnostics::TX_POWER))),
        tx_bias_microamperes: Some(microamperes(page.word(diagnostics::TX_BIAS))),
    }
}

fn thresholds(page: &HalfPage) -> Option<ModuleThresholds> {
    let read = ModuleThresholds {
        temperature_millicelsius: Thresholds::read(page, diagnostics::TEMPERATURE_THRESHOLDS, millicelsius),
        supply_microvolts: Thresholds::read(page, diagnostics::SUPPLY_THRESHOLDS, microvolts),
        rx_power_nanowatts: Thresholds::read(page, diagnostics::RX_POWER_THRESHOLDS, nanowatts),
        tx_power_nanowatts: Thresholds::read(page, diagnostics::TX_POWER_THRESHOLDS, nanowatts),
        tx_bias_microamperes: Thresholds::read(page, diagnostics::TX_BIAS_THRESHOLDS, microamperes),
    };
    read.if_any()
}
