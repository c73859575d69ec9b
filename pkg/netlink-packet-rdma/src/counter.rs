//! Hardware counters: a table inside an attribute.

use netlink_packet_core::{Emitable, NLA_F_NESTED, Nla, NlasIterator};

use crate::{attribute::text, uapi::*};

/// One hardware counter of a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[doc(alias = "RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY")]
pub struct HwCounter {
    /// The driver's name for it, like `out_of_sequence`.
    pub name: String,
    /// Its value since the driver was loaded.
    pub value: u64,
}

enum Field<'a> {
    Name(&'a str),
    Value(u64),
}

impl HwCounter {
    /// The counters in a table; an entry without a name or a value is left out.
    pub(crate) fn table(bytes: &[u8]) -> Vec<Self> {
        let entries = NlasIterator::new(bytes).map_while(Result::ok);
        entries
            .filter(|entry| entry.kind() == RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY)
            .filter_map(|entry| Self::entry(entry.value()))
            .collect()
    }

    fn entry(bytes: &[u8]) -> Option<Self> {
        let (mut name, mut value) = (None, None);
        for field in NlasIterator::new(bytes).map_while(Result::ok) {
            match field.kind() {
                RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME => name = text(field.value()),
                RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE => {
                    value = field.value().try_into().ok().map(u64::from_ne_bytes);
                }
                _ => {}
            }
        }
        Some(Self { name: name?, value: value? })
    }

    fn fields(&self) -> [Field<'_>; 2] {
        [Field::Name(&self.name), Field::Value(self.value)]
    }
}

impl Nla for HwCounter {
    fn kind(&self) -> u16 {
        RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY | NLA_F_NESTED
    }

    fn value_len(&self) -> usize {
        self.fields().as_slice().buffer_len()
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        self.fields().as_slice().emit(buffer);
    }
}

impl Nla for Field<'_> {
    fn kind(&self) -> u16 {
        match self {
            Self::Name(_) => RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME,
            Self::Value(_) => RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE,
        }
    }

    fn value_len(&self) -> usize {
        match self {
            Self::Name(name) => name.len() + 1,
            Self::Value(_) => 8,
        }
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        match self {
            Self::Name(name) => {
                buffer[..name.len()].copy_from_slice(name.as_bytes());
                buffer[name.len()] = 0;
            }
            Self::Value(value) => buffer.copy_from_slice(&value.to_ne_bytes()),
        }
    }
}
