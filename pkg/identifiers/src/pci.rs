//! Addresses of PCI functions.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The address of a PCI function, `domain:bus:device.function`, displayed as in sysfs (`0000:af:00.1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// The text is not a valid PCI address.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a PCI address: expected domain:bus:device.function in hex, like 0000:af:00.1")]
pub struct InvalidPciAddress(pub String);

impl PciAddress {
    /// Returns the addresses of all eight functions of its device, including itself.
    pub fn slot(self) -> impl Iterator<Item = Self> {
        (0..8).map(move |function| Self { function, ..self })
    }
}

impl FromStr for PciAddress {
    type Err = InvalidPciAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| InvalidPciAddress(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (domain, rest) = text.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    // Domains of Intel VMD start at 0x10000 and have five digits.
    if !(4..=8).contains(&domain.len()) || bus.len() != 2 || device.len() != 2 || function.len() != 1 {
        return None;
    }
    let hex = |digits: &str| -> Option<u32> {
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let address = PciAddress {
        domain: hex(domain)?,
        bus: u8::try_from(hex(bus)?).ok()?,
        device: u8::try_from(hex(device)?).ok()?,
        function: u8::try_from(hex(function)?).ok()?,
    };
    (address.device < 0x20 && address.function < 8).then_some(address)
}

impl TryFrom<String> for PciAddress {
    type Error = InvalidPciAddress;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PciAddress> for String {
    fn from(address: PciAddress) -> Self {
        address.to_string()
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_any_case_and_written_as_sysfs_does() {
        assert_eq!("0000:AF:00.1".parse::<PciAddress>().unwrap().to_string(), "0000:af:00.1");
        assert_eq!("10000:e1:1f.7".parse::<PciAddress>().unwrap().to_string(), "10000:e1:1f.7");
    }

    #[test]
    fn a_device_has_eight_functions_on_its_own_bus() {
        let slot: Vec<_> = "10000:e1:1f.7".parse::<PciAddress>().unwrap().slot().map(String::from).collect();
        assert_eq!((slot.len(), &*slot[0], &*slot[7]), (8, "10000:e1:1f.0", "10000:e1:1f.7"));
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            "",
            "af:00.1",
            "0000:af:00.8",
            "0000:af:20.0",
            "0000:af:00",
            "../0000:af:00.1",
            "0000:af:00.1/",
            "+000:af:00.1",
            "000:af:00.1",
            "000000000:af:00.1",
            "0000:f:00.1",
            "0000:af:0.1",
            "0000:af:00.01",
        ] {
            assert!(bad.parse::<PciAddress>().is_err(), "{bad:?} must be refused");
        }
    }
}
