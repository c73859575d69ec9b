//! The PCI Express side of a function: its link, its errors, and how it may read memory.

use serde::Serialize;

use crate::host_root::HostRoot;

/// The directory of the PCI functions.
pub(super) const DEVICES: &str = "sys/bus/pci/devices";

/// The PCI Express link of a function: current and maximum values.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PcieLink {
    /// The speed in GT/s.
    pub(crate) speed: Option<f64>,
    pub(crate) max_speed: Option<f64>,
    /// The width in lanes.
    pub(crate) width: Option<u32>,
    pub(crate) max_width: Option<u32>,
}

/// Errors since the boot that lost a transaction, as Advanced Error Reporting (AER) counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PcieErrors {
    pub(crate) nonfatal: u64,
    pub(crate) fatal: u64,
}

/// Settings of the Device Control register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PcieControl {
    /// The most bytes that the function may request with one read: 128 to 4096.
    pub(crate) max_read_request: u32,
    /// Whether the function may let writes pass others.
    pub(crate) relaxed_ordering: bool,
}

/// `PCI_STATUS`, with the bit `PCI_STATUS_CAP_LIST`; `PCI_CAPABILITY_LIST`.
const STATUS: usize = 0x06;
const HAS_CAPABILITIES: u16 = 0x10;
const CAPABILITIES: usize = 0x34;
/// What every user can read of the configuration space.
const HEADER: usize = 0x40;
const END: usize = 0x100;
/// `PCI_CAP_ID_EXP`, `PCI_EXP_DEVCTL`, `PCI_EXP_DEVCTL_RELAX_EN`.
const EXPRESS: u8 = 0x10;
const DEVICE_CONTROL: usize = 0x08;
const RELAXED_ORDERING: u16 = 0x10;

impl PcieLink {
    pub(crate) fn read(tree: &HostRoot, address: &str) -> Self {
        let text =
            |name: &str| tree.text(format!("{DEVICES}/{address}/{name}")).into_option().unwrap_or_default();
        Self {
            speed: sysfs::parse_link_speed(&text("current_link_speed")),
            max_speed: sysfs::parse_link_speed(&text("max_link_speed")),
            width: sysfs::parse_link_width(&text("current_link_width")),
            max_width: sysfs::parse_link_width(&text("max_link_width")),
        }
    }

    /// Returns the bandwidth of the link in Gb/s, without the overhead of the 8b/10b or 128b/130b line code.
    pub(crate) fn gigabits(&self) -> Option<f64> {
        let (speed, width) = (self.speed?, self.width?);
        let code = if speed <= 5.0 { 0.8 } else { 128.0 / 130.0 };
        Some(speed * f64::from(width) * code)
    }
}

impl PcieErrors {
    /// Reads the totals, which are the last line of each file; 0 without AER.
    pub(crate) fn read(tree: &HostRoot, address: &str) -> Self {
        let total = |file: &str, name: &str| {
            let text = tree.text(format!("{DEVICES}/{address}/{file}")).into_option().unwrap_or_default();
            sysfs::parse_aer_total(&text, name).unwrap_or_default()
        };
        Self {
            nonfatal: total("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
            fatal: total("aer_dev_fatal", "TOTAL_ERR_FATAL"),
        }
    }
}

impl PcieControl {
    pub(crate) fn read(tree: &HostRoot, address: &str) -> Option<Self> {
        let config = tree.bytes(format!("{DEVICES}/{address}/config")).into_option()?;
        if config.len() == HEADER {
            tree.note_unexamined(
                format!("PCIe settings of {address}"),
                "its configuration space can be read with CAP_SYS_ADMIN only",
            );
        }
        Self::parse(&config)
    }

    /// Finds the PCI Express capability: each capability begins with its ID and the offset of the next one.
    fn parse(config: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]));
        if word(STATUS)? & HAS_CAPABILITIES == 0 {
            return None;
        }
        let mut at = usize::from(*config.get(CAPABILITIES)?) & !3;
        // A capability has at least 4 bytes. The limit ends a loop of capabilities.
        for _ in 0..(END - HEADER) / 4 {
            if at < HEADER {
                return None;
            }
            if *config.get(at)? == EXPRESS {
                let control = word(at + DEVICE_CONTROL)?;
                return Some(Self {
                    max_read_request: 128 << ((control >> 12) & 7),
                    relaxed_ordering: control & RELAXED_ORDERING != 0,
                });
            }
            at = usize::from(*config.get(at + 1)?) & !3;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_is_without_the_line_code() {
        let bandwidth = |speed, width| {
            let link = PcieLink { speed: Some(speed), width, ..PcieLink::default() };
            link.gigabits().map(f64::round)
        };
        assert_eq!(bandwidth(2.5, Some(1)), Some(2.0));
        assert_eq!(bandwidth(5.0, Some(8)), Some(32.0));
        assert_eq!(bandwidth(8.0, Some(8)), Some(63.0));
        assert_eq!(bandwidth(32.0, None), None);
    }

    fn config() -> Vec<u8> {
        let mut config = vec![0; END];
        config[STATUS] = 0x10;
        config[CAPABILITIES] = 0x9c;
        config[0x9c..0x9e].copy_from_slice(&[0x11, 0x60]); // MSI-X, next at 0x60
        config[0x60..0x62].copy_from_slice(&[EXPRESS, 0x00]);
        config[0x68..0x6a].copy_from_slice(&[0x36, 0x29]); // 0x2936: 512 bytes, relaxed ordering
        config
    }

    #[test]
    fn the_device_control_register_is_found_after_other_capabilities() {
        let expected = PcieControl { max_read_request: 512, relaxed_ordering: true };
        assert_eq!(PcieControl::parse(&config()), Some(expected));
        let mut other = config();
        other[0x68..0x6a].copy_from_slice(&[0x26, 0x59]);
        let expected = PcieControl { max_read_request: 4096, relaxed_ordering: false };
        assert_eq!(PcieControl::parse(&other), Some(expected));
    }

    #[test]
    fn a_loop_a_short_file_and_no_list_are_none() {
        let mut looped = config();
        looped[0x60..0x62].copy_from_slice(&[0x01, 0x9c]);
        assert_eq!(PcieControl::parse(&looped), None);
        assert_eq!(PcieControl::parse(&config()[..HEADER]), None, "as for other users than root");
        assert_eq!(PcieControl::parse(&config()[..0x69]), None);
        assert_eq!(PcieControl::parse(&[0; END]), None);
    }
}
