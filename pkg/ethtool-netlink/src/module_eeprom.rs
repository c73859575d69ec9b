//! What a plug-in module says about itself: its vendor, its temperature, its light.

use serde::Serialize;

use crate::module_memory::HalfPage;

/// The content of a module's EEPROM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleEeprom {
    /// The identifier of SFF-8024, such as 0x11 for QSFP28.
    pub identifier: u8,
    /// The specification by which the memory was read; `None` if that of the identifier is not known here. Then the other
    /// fields are empty.
    pub interface: Option<ManagementInterface>,
    /// Who made the module.
    pub vendor: Option<ModuleVendor>,
    /// The temperature in thousandths of a degree Celsius; `None` if the module does not measure it.
    pub temperature_millicelsius: Option<i32>,
    /// The supply voltage in microvolts; `None` if the module does not measure it.
    pub supply_microvolts: Option<u32>,
    /// The media lanes, from lane 1; empty if the module measures nothing of them, as a copper cable.
    pub lanes: Vec<ModuleLane>,
    /// The limits of the measured values; `None` if the module has none.
    pub thresholds: Option<ModuleThresholds>,
}

/// The specification of a module's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ManagementInterface {
    /// CMIS: QSFP-DD, OSFP, and later modules.
    Cmis,
    /// SFF-8636, and SFF-8436 before it: QSFP+, QSFP28.
    Sff8636,
    /// SFF-8472: SFP, SFP+, SFP28.
    Sff8472,
}

/// Who made a module. The texts are those of the vendor, without trailing spaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleVendor {
    /// The name, up to 16 characters.
    pub name: String,
    /// The part number, up to 16 characters.
    pub part_number: String,
    /// The serial number, up to 16 characters.
    pub serial_number: String,
}

/// The measured values of a media lane; `None` if the module does not measure one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleLane {
    /// The number of the lane, from 1.
    pub lane: u8,
    /// The received optical power in nanowatts; 0 means that there is no light.
    pub rx_power_nanowatts: Option<u32>,
    /// The transmitted optical power in nanowatts.
    pub tx_power_nanowatts: Option<u32>,
    /// The bias current of the laser in microamperes.
    pub tx_bias_microamperes: Option<u32>,
}

/// The limits at which a module raises alarms and warnings; `None` if the module has none for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleThresholds {
    /// The limits of the temperature in thousandths of a degree Celsius.
    pub temperature_millicelsius: Option<Thresholds<i32>>,
    /// The limits of the supply voltage in microvolts.
    pub supply_microvolts: Option<Thresholds<u32>>,
    /// The limits of the received power in nanowatts.
    pub rx_power_nanowatts: Option<Thresholds<u32>>,
    /// The limits of the transmitted power in nanowatts.
    pub tx_power_nanowatts: Option<Thresholds<u32>>,
    /// The limits of the bias current in microamperes.
    pub tx_bias_microamperes: Option<Thresholds<u32>>,
}

/// The limits of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Thresholds<T> {
    /// The module raises an alarm above this.
    pub high_alarm: T,
    /// The module raises an alarm below this.
    pub low_alarm: T,
    /// The module warns above this.
    pub high_warning: T,
    /// The module warns below this.
    pub low_warning: T,
}

impl ModuleEeprom {
    /// Returns what is known of a module whose identifier is not.
    pub(crate) fn unknown(identifier: u8) -> Self {
        Self {
            identifier,
            interface: None,
            vendor: None,
            temperature_millicelsius: None,
            supply_microvolts: None,
            lanes: Vec::new(),
            thresholds: None,
        }
    }

    /// The form factor that the identifier stands for, such as `QSFP28`; `None` if it is not known here.
    pub fn form_factor(&self) -> Option<&'static str> {
        Some(match self.identifier {
            0x03 => "SFP",
            0x0c => "QSFP",
            0x0d => "QSFP+",
            0x11 => "QSFP28",
            0x18 => "QSFP-DD",
            0x19 => "OSFP",
            0x1b => "DSFP",
            0x1e => "QSFP with CMIS",
            0x1f => "SFP-DD with CMIS",
            0x20 => "SFP with CMIS",
            0x21 => "OSFP-XD with CMIS",
            _ => return None,
        })
    }
}

/// Converts a temperature in 1/256 of a degree Celsius.
pub(crate) fn millicelsius(word: u16) -> i32 {
    i32::from(word.cast_signed()) * 1000 / 256
}

/// Converts a voltage in 100 microvolts.
pub(crate) fn microvolts(word: u16) -> u32 {
    u32::from(word) * 100
}

/// Converts a power in 0.1 microwatts.
pub(crate) fn nanowatts(word: u16) -> u32 {
    u32::from(word) * 100
}

/// Converts a current in 2 microamperes.
pub(crate) fn microamperes(word: u16) -> u32 {
    u32::from(word) * 2
}

impl<T: PartialOrd> Thresholds<T> {
    /// Reads the four limits of a value, which all specifications have in this order; `None` if they are not in ascending order:
    /// vendors leave them empty or fill them with ones, and some modules return another page instead.
    pub(crate) fn read(page: &HalfPage, at: u8, convert: impl Fn(u16) -> T) -> Option<Self> {
        let [high_alarm, low_alarm, high_warning, low_warning] =
            [0, 2, 4, 6].map(|offset| page.word(at.wrapping_add(offset)));
        let limits = Self {
            high_alarm: convert(high_alarm),
            low_alarm: convert(low_alarm),
            high_warning: convert(high_warning),
            low_warning: convert(low_warning),
        };
        let is_ascending = limits.low_alarm <= limits.low_warning
            && limits.low_warning <= limits.high_warning
            && limits.high_warning <= limits.high_alarm
            && limits.low_alarm < limits.high_alarm;
        is_ascending.then_some(limits)
    }
}

impl ModuleThresholds {
    /// Returns the thresholds, unless the module has none at all.
    pub(crate) fn if_any(self) -> Option<Self> {
        let any = self.temperature_millicelsius.is_some()
            || self.supply_microvolts.is_some()
            || self.rx_power_nanowatts.is_some()
            || self.tx_power_nanowatts.is_some()
            || self.tx_bias_microamperes.is_some();
        any.then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_converted_to_units() {
        assert_eq!([0x1980, 0xff80, 0x8000, 1].map(millicelsius), [25_500, -500, -128_000, 3]);
        assert_eq!((microvolts(33_000), nanowatts(10_000), microamperes(3500)), (3_300_000, 1_000_000, 7000));
        assert_eq!((microvolts(u16::MAX), nanowatts(u16::MAX)), (6_553_500, 6_553_500));
    }

    #[test]
    fn limits_that_are_not_ascending_are_none() {
        let read = |words: [u16; 4]| {
            let mut bytes = [0; 128];
            for (at, word) in words.into_iter().enumerate() {
                bytes[2 * at..2 * at + 2].copy_from_slice(&word.to_be_bytes());
            }
            Thresholds::read(&HalfPage::try_from(&bytes[..]).unwrap(), 0x80, millicelsius)
        };
        let good = read([0x4b00, 0xfb00, 0x4600, 0x0000]).unwrap();
        assert_eq!((good.high_alarm, good.low_alarm, good.high_warning), (75_000, -5_000, 70_000));
        assert_eq!(read([0; 4]), None, "empty");
        assert_eq!(read([0xffff; 4]), None, "filled with ones");
        assert_eq!(read([0x1100, 0x0000, 0x4d65, 0x6c6c]), None, "the beginning of another page");
    }
}
