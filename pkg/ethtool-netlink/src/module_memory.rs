//! The memory of a plug-in module, as it is read over I2C.

use crate::{Malformed, attributes::text};

/// The length of a half page, in bytes.
pub(crate) const LENGTH: u8 = 128;

/// 128 bytes of a module's memory: the lower half of page 0 (bytes 0 to 127), or the upper half of any page (bytes 128 to
/// 255). The specifications number the bytes of both in this way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HalfPage([u8; LENGTH as usize]);

/// The address of a half page. The kernel reads no more with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HalfPageAddress {
    /// The I2C address (`ETHTOOL_A_MODULE_EEPROM_I2C_ADDRESS`): 0x50, which SFF-8472 calls A0h, or 0x51, A2h.
    pub i2c_address: u8,
    /// The page (`ETHTOOL_A_MODULE_EEPROM_PAGE`).
    pub page: u8,
    /// The first byte (`ETHTOOL_A_MODULE_EEPROM_OFFSET`): 0, or 128 for the upper half.
    pub offset: u8,
}

/// The memory of a module.
pub trait ModuleMemory {
    /// The error of a failed read.
    type Error;

    /// Reads a half page that every module of the kind has.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&mut self, address: HalfPageAddress) -> Result<HalfPage, Self::Error>;

    /// Reads a half page that a module, or the driver, may lack; `None` if it cannot be read.
    ///
    /// # Errors
    /// If no page can be read any more.
    fn read_optional(&mut self, address: HalfPageAddress) -> Result<Option<HalfPage>, Self::Error>;
}

impl HalfPageAddress {
    /// The lower half of page 0, which has the identifier of the module.
    pub const LOWER: Self = Self { i2c_address: 0x50, page: 0, offset: 0 };

    /// The lower half of the second I2C address of a SFP module, with the diagnostics.
    pub const DIAGNOSTICS: Self = Self { i2c_address: 0x51, page: 0, offset: 0 };

    /// The upper half of a page.
    pub const fn upper(page: u8) -> Self {
        Self { i2c_address: 0x50, page, offset: LENGTH }
    }
}

impl TryFrom<&[u8]> for HalfPage {
    type Error = Malformed;

    fn try_from(bytes: &[u8]) -> Result<Self, Malformed> {
        let page = bytes.try_into().map_err(|_| Malformed::Length {
            attribute: "ETHTOOL_A_MODULE_EEPROM_DATA",
            length: bytes.len(),
            expected: "128",
        })?;
        Ok(Self(page))
    }
}

impl HalfPage {
    /// The bytes, from the first of this half.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns a byte by its number in the specification, 0 to 127 in a lower and 128 to 255 in an upper half.
    pub(crate) fn byte(&self, number: u8) -> u8 {
        self.0[usize::from(number % LENGTH)]
    }

    /// Returns the big-endian number in a byte and the one after it.
    pub(crate) fn word(&self, number: u8) -> u16 {
        u16::from_be_bytes([self.byte(number), self.byte(number.wrapping_add(1))])
    }

    /// Returns ASCII text, without the spaces that fill it up.
    pub(crate) fn text(&self, number: u8, length: u8) -> String {
        let bytes: Vec<u8> = (0..length).map(|at| self.byte(number.wrapping_add(at))).collect();
        text(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_numbers_of_the_specification() {
        let bytes: Vec<u8> = (0..LENGTH).collect();
        let page = HalfPage::try_from(&bytes[..]).unwrap();
        assert_eq!((page.byte(0), page.byte(127), page.byte(128), page.byte(255)), (0, 127, 0, 127));
        assert_eq!(page.word(22), 0x1617);
        assert!((0..=u8::MAX).all(|at| page.text(at, u8::MAX).len() <= 1024), "no number is out of range");
        assert!(HalfPage::try_from(&bytes[1..]).is_err());
    }
}
