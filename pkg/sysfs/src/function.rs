//! Functions, which have links and RDMA devices: PCI functions, and auxiliary devices (scalable functions).

use std::{fmt, str::FromStr};

use identifiers::PciAddress;
use serde::{Deserialize, Serialize};

/// A function of a card, in the form in which a device plugin passes it as `deviceID`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[doc(alias = "deviceID")]
pub enum Function {
    /// A PCI function: a PF or a VF.
    Pci(PciAddress),
    /// An auxiliary device: a scalable function, such as `mlx5_core.sf.2`.
    Auxiliary(AuxiliaryName),
}

/// The name of an auxiliary device: letters, digits, `_`, `.` and `-`, without `..`, at most 128 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuxiliaryName(String);

/// The text is not a device ID.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is not a device ID: expected a PCI address like 0000:af:00.1 or an auxiliary device like mlx5_core.sf.2"
)]
pub struct InvalidFunction(pub String);

impl AuxiliaryName {
    const MAX: usize = 128;

    /// Returns the name. It is safe as a component of a path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Function {
    /// Returns the PCI address; `None` for an auxiliary device.
    pub fn pci(&self) -> Option<PciAddress> {
        match self {
            Self::Pci(address) => Some(*address),
            Self::Auxiliary(_) => None,
        }
    }

    /// Returns the path of the device below the root of sysfs.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Pci(address) => format!("bus/pci/devices/{address}"),
            Self::Auxiliary(name) => format!("bus/auxiliary/devices/{name}"),
        }
    }
}

impl FromStr for AuxiliaryName {
    type Err = InvalidFunction;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        let valid = (1..=Self::MAX).contains(&text.len())
            && text != "."
            && !text.contains("..")
            && text.bytes().all(allowed);
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidFunction(text.to_owned())) }
    }
}

impl FromStr for Function {
    type Err = InvalidFunction;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(address) => Ok(Self::Pci(address)),
            Err(_) => text.parse().map(Self::Auxiliary),
        }
    }
}

impl From<PciAddress> for Function {
    fn from(address: PciAddress) -> Self {
        Self::Pci(address)
    }
}

impl TryFrom<String> for Function {
    type Error = InvalidFunction;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Function> for String {
    fn from(function: Function) -> Self {
        function.to_string()
    }
}

impl fmt::Display for AuxiliaryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(address) => address.fmt(f),
            Self::Auxiliary(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_id_that_parses_as_a_pci_address_is_one() {
        assert_eq!("0000:AF:00.2".parse::<Function>().unwrap().to_string(), "0000:af:00.2");
        let scalable: Function = "mlx5_core.sf.2".parse().unwrap();
        assert!(matches!(&scalable, Function::Auxiliary(name) if name.as_str() == "mlx5_core.sf.2"));
        assert_eq!(scalable.path(), "bus/auxiliary/devices/mlx5_core.sf.2");
    }

    #[test]
    fn no_device_id_leaves_its_directory() {
        for bad in ["", ".", "..", "a..b", "a/b", "af:00.1", "0000:af:00.9", "a b", "a\0", &"x".repeat(129)] {
            assert!(bad.parse::<Function>().is_err(), "{bad:?} must be refused");
        }
    }
}
