//! Reading the kernel's structures, field by field.

use netlink_packet_core::DecodeError;

/// The fields of a structure that are still to be read. A structure that is longer than expected is accepted, as newer kernels
/// may append fields; a shorter one is an error.
pub(crate) struct Fields<'a> {
    structure: &'static str,
    length: usize,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(structure: &'static str, bytes: &'a [u8]) -> Self {
        Self { structure, length: bytes.len(), rest: bytes }
    }

    /// Returns the next `N` bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (field, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.too_short())?;
        self.rest = rest;
        Ok(*field)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.bytes().map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.bytes().map(u32::from_ne_bytes)
    }

    /// Returns the next `N` numbers of four bytes.
    pub(crate) fn u32s<const N: usize>(&mut self) -> Result<[u32; N], DecodeError> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.u32()?;
        }
        Ok(numbers)
    }

    /// Returns the next `N` numbers of eight bytes.
    pub(crate) fn u64s<const N: usize>(&mut self) -> Result<[u64; N], DecodeError> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.bytes().map(u64::from_ne_bytes)?;
        }
        Ok(numbers)
    }

    fn too_short(&self) -> DecodeError {
        DecodeError::from(format!("{} has only {} bytes", self.structure, self.length))
    }
}
