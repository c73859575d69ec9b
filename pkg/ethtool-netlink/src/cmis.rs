//! Modules with the Common Management Interface Specification (CMIS), revisions 4 and 5.
//!
//! Only bank 0 is read, which has eight media lanes.

use crate::{
    ManagementInterface, ModuleEeprom, ModuleLane, ModuleThresholds, ModuleVendor, Thresholds,
    module_eeprom::{microamperes, microvolts, millicelsius, nanowatts},
    module_memory::{HalfPage, HalfPageAddress, ModuleMemory},
};

/// Lower memory.
mod lower {
    pub(super) const IDENTIFIER: u8 = 0;
    /// Bit 7: the module has only page 00h, as a passive copper cable.
    pub(super) const MEMORY_MODEL: u8 = 2;
    pub(super) const FLAT: u8 = 1 << 7;
    pub(super) const TEMPERATURE: u8 = 14;
    pub(super) const SUPPLY: u8 = 16;
}

/// Page 00h: identity.
mod identity {
    pub(super) const VENDOR_NAME: u8 = 129;
    pub(super) const PART_NUMBER: u8 = 148;
    pub(super) const SERIAL_NUMBER: u8 = 166;
    pub(super) const TEXT: u8 = 16;
    /// A bit for each media lane that the module does not have.
    pub(super) const LANES_NOT_SUPPORTED: u8 = 210;
}

/// Page 01h: what the module can do.
mod abilities {
    pub(super) const PAGE: u8 = 0x01;
    pub(super) const MODULE_MONITORS: u8 = 159;
    pub(super) const TEMPERATURE: u8 = 1 << 0;
    pub(super) const SUPPLY: u8 = 1 << 1;
    pub(super) const LANE_MONITORS: u8 = 160;
    pub(super) const TX_BIAS: u8 = 1 << 0;
    pub(super) const TX_POWER: u8 = 1 << 1;
    pub(super) const RX_POWER: u8 = 1 << 2;
    /// Bits 3 and 4: the factor of bias currents.
    pub(super) const TX_BIAS_FACTOR: u8 = 3;
}

/// Page 02h: thresholds.
mod thresholds {
    pub(super) const PAGE: u8 = 0x02;
    pub(super) const TEMPERATURE: u8 = 128;
    pub(super) const SUPPLY: u8 = 136;
    pub(super) const TX_POWER: u8 = 176;
    pub(super) const TX_BIAS: u8 = 184;
    pub(super) const RX_POWER: u8 = 192;
}

/// Page 11h: the state of lanes.
mod lanes {
    pub(super) const PAGE: u8 = 0x11;
    pub(super) const TX_POWER: u8 = 154;
    pub(super) const TX_BIAS: u8 = 170;
    pub(super) const RX_POWER: u8 = 186;
}

/// The monitors of a module.
#[derive(Debug, Clone, Copy)]
struct Monitors {
    module: u8,
    lane: u8,
}

impl Monitors {
    fn read(abilities: &HalfPage) -> Self {
        Self {
            module: abilities.byte(abilities::MODULE_MONITORS),
            lane: abilities.byte(abilities::LANE_MONITORS),
        }
    }

    fn has_lane(self, monitor: u8) -> bool {
        self.lane & monitor != 0
    }

    /// Returns the factor of bias currents; `None` if it is a reserved one.
    fn bias_factor(self) -> Option<u32> {
        match self.lane >> abilities::TX_BIAS_FACTOR & 0b11 {
            0 => Some(1),
            1 => Some(2),
            2 => Some(4),
            _ => None,
        }
    }

    fn has_any_lane(self) -> bool {
        self.has_lane(abilities::TX_BIAS | abilities::TX_POWER | abilities::RX_POWER)
    }
}

/// Reads a module. Each half page takes several milliseconds on the I2C bus, so that only those with values are read.
pub(crate) fn read<M: ModuleMemory>(lower: &HalfPage, memory: &mut M) -> Result<ModuleEeprom, M::Error> {
    let identity = memory.read(HalfPageAddress::upper(0))?;
    let monitors = if lower.byte(lower::MEMORY_MODEL) & lower::FLAT == 0 {
        memory.read_optional(HalfPageAddress::upper(abilities::PAGE))?.map(|page| Monitors::read(&page))
    } else {
        None
    };
    let has = |monitor| monitors.is_some_and(|monitors| monitors.module & monitor != 0);
    Ok(ModuleEeprom {
        identifier: lower.byte(lower::IDENTIFIER),
        interface: Some(ManagementInterface::Cmis),
        vendor: Some(vendor(&identity)),
        temperature_millicelsius: has(abilities::TEMPERATURE)
            .then(|| millicelsius(lower.word(lower::TEMPERATURE))),
        supply_microvolts: has(abilities::SUPPLY).then(|| microvolts(lower.word(lower::SUPPLY))),
        lanes: match monitors.filter(|monitors| monitors.has_any_lane()) {
            Some(monitors) => read_lanes(&identity, monitors, memory)?,
            None => Vec::new(),
        },
        thresholds: match monitors {
            Some(monitors) => read_thresholds(monitors, memory)?,
            None => None,
        },
    })
}

fn vendor(identity: &HalfPage) -> ModuleVendor {
    ModuleVendor {
        name: identity.text(identity::VENDOR_NAME, identity::TEXT),
        part_number: identity.text(identity::PART_NUMBER, identity::TEXT),
        serial_number: identity.text(identity::SERIAL_NUMBER, identity::TEXT),
    }
}

fn read_lanes<M: ModuleMemory>(
    identity: &HalfPage,
    monitors: Monitors,
    memory: &mut M,
) -> Result<Vec<ModuleLane>, M::Error> {
    let Some(page) = memory.read_optional(HalfPageAddress::upper(lanes::PAGE))? else {
        return Ok(Vec::new());
    };
    let missing = identity.byte(identity::LANES_NOT_SUPPORTED);
    let present = (0..8_u8).filter(|lane| missing >> lane & 1 == 0);
    Ok(present.map(|lane| read_lane(&page, monitors, lane)).collect())
}

fn read_lane(page: &HalfPage, monitors: Monitors, lane: u8) -> ModuleLane {
    let word = |monitor, at: u8| monitors.has_lane(monitor).then(|| page.word(at + 2 * lane));
    let bias = word(abilities::TX_BIAS, lanes::TX_BIAS).map(microamperes);
    ModuleLane {
        lane: lane + 1,
        rx_power_nanowatts: word(abilities::RX_POWER, lanes::RX_POWER).map(nanowatts),
        tx_power_nanowatts: word(abilities::TX_POWER, lanes::TX_POWER).map(nanowatts),
        tx_bias_microamperes: bias.zip(monitors.bias_factor()).map(|(current, factor)| current * factor),
    }
}

fn read_thresholds<M: ModuleMemory>(
    monitors: Monitors,
    memory: &mut M,
) -> Result<Option<ModuleThresholds>, M::Error> {
    let Some(page) = memory.read_optional(HalfPageAddress::upper(thresholds::PAGE))? else { return Ok(None) };
    let bias = |factor| Thresholds::read(&page, thresholds::TX_BIAS, |word| microamperes(word) * factor);
    let read = ModuleThresholds {
        temperature_millicelsius: Thresholds::read(&page, thresholds::TEMPERATURE, millicelsius),
        supply_microvolts: Thresholds::read(&page, thresholds::SUPPLY, microvolts),
        rx_power_nanowatts: Thresholds::read(&page, thresholds::RX_POWER, nanowatts),
        tx_power_nanowatts: Thresholds::read(&page, thresholds::TX_POWER, nanowatts),
        tx_bias_microamperes: monitors.bias_factor().and_then(bias),
    };
    Ok(read.if_any())
}
