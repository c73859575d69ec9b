//! Modules with SFF-8636, and with SFF-8436 before it: QSFP+ and QSFP28.

use crate::{
    ManagementInterface, ModuleEeprom, ModuleLane, ModuleThresholds, ModuleVendor, Thresholds,
    module_eeprom::{microamperes, microvolts, millicelsius, nanowatts},
    module_memory::{HalfPage, HalfPageAddress, ModuleMemory},
};

/// Lower page 00h.
mod lower {
    pub(super) const IDENTIFIER: u8 = 0;
    /// Bit 2: the module has only page 00h.
    pub(super) const STATUS: u8 = 2;
    pub(super) const FLAT: u8 = 1 << 2;
    pub(super) const TEMPERATURE: u8 = 22;
    pub(super) const SUPPLY: u8 = 26;
    pub(super) const RX_POWER: u8 = 34;
    pub(super) const TX_BIAS: u8 = 42;
    pub(super) const TX_POWER: u8 = 50;
}

/// Upper page 00h.
mod identity {
    /// Bits 4 to 7: the technology of the transmitter.
    pub(super) const TECHNOLOGY: u8 = 147;
    /// The first of the technologies without light, from a passive copper cable to an active one.
    pub(super) const COPPER: u8 = 0xa;
    pub(super) const VENDOR_NAME: u8 = 148;
    pub(super) const PART_NUMBER: u8 = 168;
    pub(super) const SERIAL_NUMBER: u8 = 196;
    pub(super) const TEXT: u8 = 16;
    pub(super) const MONITORS: u8 = 220;
    pub(super) const TEMPERATURE: u8 = 1 << 5;
    pub(super) const SUPPLY: u8 = 1 << 4;
    pub(super) const TX_POWER: u8 = 1 << 2;
}

/// Upper page 03h.
mod thresholds {
    pub(super) const PAGE: u8 = 0x03;
    pub(super) const TEMPERATURE: u8 = 128;
    pub(super) const SUPPLY: u8 = 144;
    pub(super) const RX_POWER: u8 = 176;
    pub(super) const TX_BIAS: u8 = 184;
    pub(super) const TX_POWER: u8 = 192;
}

const LANES: u8 = 4;

/// Reads a module.
pub(crate) fn read<M: ModuleMemory>(lower: &HalfPage, memory: &mut M) -> Result<ModuleEeprom, M::Error> {
    let identity = memory.read(HalfPageAddress::upper(0))?;
    let monitors = identity.byte(identity::MONITORS);
    // Before revision 2.8 these two bits were reserved, and a module that does not measure a value has 0 there.
    let measured = |bit: u8, at: u8| Some(lower.word(at)).filter(|word| monitors & bit != 0 || *word != 0);
    Ok(ModuleEeprom {
        identifier: lower.byte(lower::IDENTIFIER),
        interface: Some(ManagementInterface::Sff8636),
        vendor: Some(vendor(&identity)),
        temperature_millicelsius: measured(identity::TEMPERATURE, lower::TEMPERATURE).map(millicelsius),
        supply_microvolts: measured(identity::SUPPLY, lower::SUPPLY).map(microvolts),
        lanes: if is_copper(&identity) { Vec::new() } else { lanes(lower, monitors) },
        thresholds: if lower.byte(lower::STATUS) & lower::FLAT == 0 {
            read_thresholds(memory)?
        } else {
            None
        },
    })
}

fn is_copper(identity: &HalfPage) -> bool {
    identity.byte(identity::TECHNOLOGY) >> 4 >= identity::COPPER
}

fn vendor(identity: &HalfPage) -> ModuleVendor {
    ModuleVendor {
        name: identity.text(identity::VENDOR_NAME, identity::TEXT),
        part_number: identity.text(identity::PART_NUMBER, identity::TEXT),
        serial_number: identity.text(identity::SERIAL_NUMBER, identity::TEXT),
    }
}

fn lanes(lower: &HalfPage, monitors: u8) -> Vec<ModuleLane> {
    let word = |at: u8, lane: u8| lower.word(at + 2 * lane);
    // Some modules measure the transmitted power without saying so.
    let transmits = (0..LANES).any(|lane| word(lower::TX_POWER, lane) != 0);
    let tx_power = monitors & identity::TX_POWER != 0 || transmits;
    let lane = |lane| ModuleLane {
        lane: lane + 1,
        rx_power_nanowatts: Some(nanowatts(word(lower::RX_POWER, lane))),
        tx_power_nanowatts: tx_power.then(|| nanowatts(word(lower::TX_POWER, lane))),
        tx_bias_microamperes: Some(microamperes(word(lower::TX_BIAS, lane))),
    };
    (0..LANES).map(lane).collect()
}

fn read_thresholds<M: ModuleMemory>(memory: &mut M) -> Result<Option<ModuleThresholds>, M::Error> {
    let Some(page) = memory.read_optional(HalfPageAddress::upper(thresholds::PAGE))? else { return Ok(None) };
    let read = ModuleThresholds {
        temperature_millicelsius: Thresholds::read(&page, thresholds::TEMPERATURE, millicelsius),
        supply_microvolts: Thresholds::read(&page, thresholds::SUPPLY, microvolts),
        rx_power_nanowatts: Thresholds::read(&page, thresholds::RX_POWER, nanowatts),
        tx_power_nanowatts: Thresholds::read(&page, thresholds::TX_POWER, nanowatts),
        tx_bias_microamperes: Thresholds::read(&page, thresholds::TX_BIAS, microamperes),
    };
    Ok(read.if_any())
}
