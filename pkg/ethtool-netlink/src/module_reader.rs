//! Reading a module by the specification of its identifier.

use crate::{
    ModuleEeprom, cmis,
    module_memory::{HalfPage, HalfPageAddress, ModuleMemory},
    sff8472, sff8636,
};

impl ModuleEeprom {
    /// Reads a module: first the identifier, then what its specification defines.
    ///
    /// # Errors
    /// If a required half page cannot be read.
    pub fn read<M: ModuleMemory>(memory: &mut M) -> Result<Self, M::Error> {
        let lower = memory.read(HalfPageAddress::LOWER)?;
        Self::read_further(&lower, memory)
    }

    /// Reads a module whose lower half of page 0 was read before.
    pub(crate) fn read_further<M: ModuleMemory>(lower: &HalfPage, memory: &mut M) -> Result<Self, M::Error> {
        match lower.byte(0) {
            // SFP, SFP+, SFP28.
            0x03 => sff8472::read(lower, memory),
            // QSFP, QSFP+, QSFP28.
            0x0c | 0x0d | 0x11 => sff8636::read(lower, memory),
            // QSFP-DD, OSFP, DSFP; and QSFP, SFP-DD, SFP and OSFP-XD with CMIS.
            0x18 | 0x19 | 0x1b | 0x1e..=0x21 => cmis::read(lower, memory),
            identifier => Ok(Self::unknown(identifier)),
        }
    }
}
