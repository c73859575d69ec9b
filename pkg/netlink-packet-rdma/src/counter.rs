//! Hardware counters: a table inside an attribute.

use netlink_packet_core::{Emitable, NLA_F_NESTED, Nla};

use crate::{
    entries::{entries, fields},
    uapi::*,
    value::{AttributeValue, EntryField, text},
};

/// One hardware counter of a port, or of a counter set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[doc(alias = "RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY")]
pub struct HwCounter {
    /// The driver's name of the counter, such as `out_of_sequence`.
    pub name: String,
    /// The value since the driver was loaded, or since the set was created.
    pub value: u64,
}

/// A hardware counter that a port supports, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[doc(alias = "RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX")]
pub struct HwCounterStatus {
    /// The driver's name of the counter, such as `cc_rx_ce_pkts`.
    pub name: String,
    /// The driver's number of the counter, from 0.
    pub index: u32,
    /// For an optional counter: whether it is enabled (1) or not (0). The others are always enabled.
    pub dynamic: Option<u8>,
}

/// The index of an optional counter that a request enables; it disables the other optional ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnabledCounter(
    /// [`HwCounterStatus::index`].
    pub u32,
);

impl Nla for EnabledCounter {
    fn kind(&self) -> u16 {
        RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX
    }

    fn value_len(&self) -> usize {
        size_of::<u32>()
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.0.to_ne_bytes());
    }
}

/// A table of hardware counters: the same attribute contains either values or statuses.
pub(crate) enum HwCounters {
    Values(Vec<HwCounter>),
    Statuses(Vec<HwCounterStatus>),
}

/// All fields that an entry may have.
#[derive(Default)]
struct CounterEntry {
    name: Option<String>,
    value: Option<u64>,
    index: Option<u32>,
    dynamic: Option<u8>,
}

impl HwCounters {
    /// Returns the counters in a table or, if none of them has a value, their statuses. Entries without a name are left
    /// out.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let (mut values, mut statuses) = (Vec::new(), Vec::new());
        for entry in entries(bytes, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY) {
            match CounterEntry::read(entry) {
                CounterEntry { name: Some(name), value: Some(value), .. } => {
                    values.push(HwCounter { name, value })
                }
                CounterEntry { name: Some(name), index: Some(index), dynamic, .. } => {
                    statuses.push(HwCounterStatus { name, index, dynamic });
                }
                _ => {}
            }
        }
        if values.is_empty() && !statuses.is_empty() {
            Self::Statuses(statuses)
        } else {
            Self::Values(values)
        }
    }
}

impl CounterEntry {
    fn read(bytes: &[u8]) -> Self {
        let mut entry = Self::default();
        for field in fields(bytes) {
            let value = field.value();
            match field.kind() {
                RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME => entry.name = text(value),
                RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE => {
                    entry.value = value.try_into().ok().map(u64::from_ne_bytes);
                }
                RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX => {
                    entry.index = value.try_into().ok().map(u32::from_ne_bytes);
                }
                RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC => {
                    entry.dynamic = value.try_into().ok().map(u8::from_ne_bytes);
                }
                _ => {}
            }
        }
        entry
    }
}

impl HwCounter {
    fn fields(&self) -> [EntryField<'_>; 2] {
        [
            EntryField(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, AttributeValue::Text(&self.name)),
            EntryField(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, AttributeValue::U64(self.value)),
        ]
    }
}

impl HwCounterStatus {
    fn fields(&self) -> Vec<EntryField<'_>> {
        let name = EntryField(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, AttributeValue::Text(&self.name));
        let index = EntryField(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, AttributeValue::U32(self.index));
        let dynamic =
            self.dynamic.map(|on| EntryField(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC, AttributeValue::U8(on)));
        [name, index].into_iter().chain(dynamic).collect()
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

impl Nla for HwCounterStatus {
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
